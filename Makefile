.PHONY: check quick format readme golden

check:  ## what CI runs: the wheel in a fresh environment, all Pythons
	.ci/run

quick:  ## the same checks in the environment at hand, against the sources
	ruff check .
	ruff format --check .
	mypy
	lint-imports --no-cache
	pytest -q

format:  ## let ruff rewrite what it can
	ruff check --fix .
	ruff format .

readme:  ## run the commands of the documentation and write their output into it
	python tools/readme.py

golden:  ## record again what every verb prints and writes; look at the difference before you commit it
	rm -f tests/golden/outputs/*
	SIZEUP_BLESS=1 pytest -q tests/test_golden.py
