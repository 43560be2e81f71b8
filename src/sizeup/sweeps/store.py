"""The results of sweeps: one Parquet file for each model and set of questions, under names made of digests.

    DIR/shards/ab/abcd...-0123....parquet   the rows of one model
    DIR/table/GENERATION/device=.../...     the same rows sorted for questions, where they were compacted
    DIR/table/current.json                  which generation that is, and which shards it holds
    DIR/log/...jsonl                        how long every shard took

Whatever exists is complete and need not be computed again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from sizeup.errors import MissingLibrary, SizeupError
from sizeup.sweeps.places import Place, place_of
from sizeup.sweeps.schema import arrow_schema

SHARDS, TABLE, LOG = "shards", "table", "log"
CURRENT = f"{TABLE}/current.json"
_DIGITS = 16  # of the digest of the questions: it only has to tell apart those of one model


class Store:
    """A folder or an address with the results of sweeps."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingLibrary("a store of sweeps", "pyarrow", "sweep") from error
        self.place: Place = place_of(address)

    def __repr__(self) -> str:
        return f"<Store at {self.place.address}>"

    def shard(self, model_hash: str, digest: str) -> str:
        """The name of the file with a model's answers to some questions."""
        return f"{SHARDS}/{model_hash[:2]}/{model_hash}-{digest[:_DIGITS]}.parquet"

    def shards(self) -> list[str]:
        """The names of all shards."""
        return [name for name in self.place.names(SHARDS) if name.endswith(".parquet")]

    def shards_of(self, model_hash: str) -> list[str]:
        """The names of the shards of one model."""
        start = f"{SHARDS}/{model_hash[:2]}/{model_hash}-"
        return [name for name in self.place.names(f"{SHARDS}/{model_hash[:2]}") if name.startswith(start)]

    def has(self, name: str) -> bool:
        """Whether a shard is there, and so complete."""
        return self.place.has(name)

    def write(self, name: str, batches: Iterable[Any]) -> int:
        """Write record batches to a file that appears when all of them are in it; the number of rows."""
        from pyarrow import parquet

        rows = 0
        with (
            self.place.writing(name) as path,
            parquet.ParquetWriter(path, arrow_schema(), compression="zstd") as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        return rows

    def read(self, names: Iterable[str], columns: list[str] | None = None) -> Iterator[Any]:
        """The tables in some files, one by one."""
        from pyarrow import ArrowInvalid, parquet

        for name in names:
            try:
                with self.place.reading(name) as file:
                    yield parquet.read_table(file, columns=columns)
            except ArrowInvalid as error:
                raise SizeupError(
                    f"{self.place.path(name)}: not a table of a sweep ({error}); remove it"
                ) from error

    def states(self, names: Iterable[str]) -> dict[str, str]:
        """The state of every row of some shards, by its key."""
        found: dict[str, str] = {}
        for table in self.read(names, ["key", "status"]):
            found.update(zip(table["key"].to_pylist(), table["status"].to_pylist(), strict=True))
        return found

    def replace(self, name: str, shards: Iterable[str], batches: Iterable[Any]) -> None:
        """Write rows in the place of those of the same keys in some shards, and the rest as a new one.

        Each file changes in one step, and no key is ever in two of them.
        """
        import pyarrow as pa
        from pyarrow import compute

        left = pa.Table.from_batches(batches, arrow_schema())
        self.place.remove(CURRENT)  # the sorted table holds what is replaced now
        for shard in shards:
            old = next(self.read([shard]))
            here = compute.is_in(left["key"], old["key"])
            kept = old.filter(compute.invert(compute.is_in(old["key"], left["key"])))
            self.write(shard, pa.concat_tables([kept, left.filter(here)]).to_batches())
            left = left.filter(compute.invert(here))
        if len(left):
            self.write(name, left.to_batches())

    def current(self) -> tuple[list[str], set[str]]:
        """The files of the sorted table, and the names of the shards whose rows they hold."""
        if not self.place.has(CURRENT):
            return [], set()
        with self.place.reading(CURRENT) as file:
            content = json.loads(file.read())
        files = self.place.names(f"{TABLE}/{content['generation']}")
        return [name for name in files if name.endswith(".parquet")], set(content["shards"])

    def parts(self) -> list[str]:
        """The names of files that together hold every row once: the sorted table, and shards that are newer."""
        files, merged = self.current()
        return [*files, *(name for name in self.shards() if name not in merged)]

    def paths(self) -> list[str]:
        """The addresses of the same files."""
        return [self.place.path(name) for name in self.parts()]
