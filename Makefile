.PHONY: check quick fast bare long zoo boards splits format readme golden site first-answers coverage mutants

check:  ## what CI runs: the wheel in a fresh environment, all Pythons
	.ci/run

quick:  ## the same checks in the environment at hand, against the sources
	ruff check .
	ruff format --check .
	mypy
	lint-imports --no-cache
	pytest -q

fast:  ## operators, graph, memory, cost, checks and the command line in less than a minute
	pytest -q -m "not slow and not alone" --durations=5 --durations-min=2 tests/ops tests/graph tests/memory \
		tests/test_cost*.py tests/checks tests/cli/test_cli.py

BARE = not extras and not alone
bare:  ## what needs neither extras nor a quiet machine; `TESTS=tests/ops` for some of it
	pytest -q -m "$(BARE)" $(TESTS)

long:  ## at full size what CI runs smaller, with the results in docs/long-tests.md
	python tools/long_tests.py

zoo:  ## MACs of all models of tools/zoo.toml by torch's own counter, with the results in docs/zoo.md
	python tools/zoo.py

boards:  ## arenas and verdicts for TFLite Micro compared with emulated boards, with the results in docs/boards.md
	python tools/boards.py

splits:  ## arenas of model files with and without strips, with the results in docs/splits.md
	python tools/splits.py

coverage:  ## line and branch coverage of the package by all tests but those of time; `TESTS=tests/ops` for some of them
	mkdir -p build/coverage && rm -f build/coverage/data*
	coverage run -m pytest -q -m "not alone" -n auto --dist worksteal --junitxml=build/coverage/tests.xml $(TESTS)
	coverage combine -q
	coverage report
	coverage json -q -o build/coverage/coverage.json

mutants:  ## a seeded sample of mutants of operators, cost, memory, latency and checks, judged by the tests that reach them
	python tools/mutants.py

format:  ## let ruff rewrite what it can
	ruff check --fix .
	ruff format .

readme:  ## run the commands of the documentation and write their output into it
	python tools/readme.py

site:  ## build the documentation site into site/ (pip install --group docs, in the environment of Setup)
	NO_MKDOCS_2_WARNING=1 mkdocs build

first-answers:  ## time the pages of docs/start in clean environments, with the transcript in docs/first-answers.md
	python tools/first_answers.py

golden:  ## record again what every verb prints and writes; look at the difference before you commit it
	rm -f tests/golden/outputs/* tests/golden/matrix/*
	SIZEUP_BLESS=1 pytest -q tests/test_golden.py
