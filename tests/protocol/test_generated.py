"""The generated files are what the table gives, and the table is what Kafka's definitions say."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from codegen import extract, generate, table
from logstore.protocol.generated import messages, records
from tests.protocol import made


@pytest.mark.parametrize("path", generate.generated(), ids=lambda path: path.name)
def test_the_generated_files_are_what_the_table_gives(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generate.generated()[path], "run python -m codegen.generate"


def test_every_api_has_a_request_and_a_response_of_the_same_versions() -> None:
    assert set(messages.REQUESTS) == set(messages.RESPONSES) == extract.KEYS
    for key, request in messages.REQUESTS.items():
        response = messages.RESPONSES[key]
        assert (key, True, key, False) == (
            request.API_KEY,
            request.IS_REQUEST,
            response.API_KEY,
            response.IS_REQUEST,
        )
        assert request.MIN_VERSION == response.MIN_VERSION
        assert request.FLEXIBLE_SINCE == response.FLEXIBLE_SINCE
    assert messages.REQUESTS[22].MAX_VERSION == 5, "Kafka does not announce the version that it tries out"


def test_a_field_has_every_part_of_its_line() -> None:
    (message,) = (message for message in made.TABLE if message.name == "FetchRequest")
    fields = {field.name: field for field in message.struct("FetchPartition").fields}
    mark = fields["HighWatermark"]
    assert (mark.type, mark.versions, mark.tag, mark.ignorable) == ("int64", (18, 18), 1, True)
    assert table.default_of(mark) == str(2**63 - 1)
    assert fields["LastFetchedEpoch"].versions == (12, 18)
    assert message.fields[0].nullable == (12, 18)
    assert message.flexible == (12, 18)


def test_the_table_is_made_from_a_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    definition = {
        "apiKey": 0, "type": "request", "name": "ProduceRequest", "validVersions": "3-13", "flexibleVersions": "9+",
        "commonStructs": [
            {"name": "Shared", "versions": "0+", "fields": [{"name": "A", "type": "int8", "versions": "0+"}]},
        ],
        "fields": [
            {"name": "Old", "type": "int8", "versions": "0-2", "about": "of versions that are gone"},
            {"name": "Name", "type": "string", "versions": "3+", "nullableVersions": "4+", "default": "null",
             "ignorable": True, "about": "prose that is not taken over"},
            {"name": "Many", "type": "[]Shared", "versions": "9+", "taggedVersions": "9+", "tag": 3},
        ],
    }  # fmt: skip
    jar = tmp_path / "kafka-clients-9.9.9.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        text = "// a licence\n" + json.dumps(definition, indent=1).replace('"fields"', '// a remark\n"fields"', 1)
        archive.writestr("common/message/ProduceRequest.json", text)
        archive.writestr("common/message/VoteRequest.json", json.dumps({**definition, "apiKey": 52}))
    made_table = tmp_path / "messages.txt"
    monkeypatch.setattr(extract, "TABLE", made_table)
    monkeypatch.setattr(extract, "EMBEDDED_TABLE", tmp_path / "embedded.txt")
    extract.main(jar)

    assert table.kafka_version(made_table) == "9.9.9"
    (message,) = table.read(made_table)
    assert not message.is_record
    assert [field.name for field in message.fields] == ["Name", "Many"]
    name, many = message.fields
    assert (name.versions, name.nullable, name.ignorable) == ((3, 13), (4, 13), True)
    assert (many.tag, many.tagged, many.is_array, message.struct("Shared").fields[0].name) == (
        3,
        (9, 13),
        True,
        "A",
    )
    assert "prose" not in made_table.read_text()


def test_the_table_of_records_is_made_from_the_other_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    definition = {
        "apiKey": 2, "type": "metadata", "name": "TopicRecord", "validVersions": "0", "flexibleVersions": "0+",
        "fields": [{"name": "Name", "type": "string", "versions": "0+"}],
    }  # fmt: skip
    clients, metadata = tmp_path / "kafka-clients-9.9.9.jar", tmp_path / "kafka-metadata-9.9.9.jar"
    with zipfile.ZipFile(clients, "w"), zipfile.ZipFile(metadata, "w") as archive:
        archive.writestr("common/metadata/TopicRecord.json", json.dumps(definition))
        archive.writestr("common/metadata/NoOpRecord.json", json.dumps({**definition, "name": "NoOpRecord"}))
    monkeypatch.setattr(extract, "TABLE", tmp_path / "messages.txt")
    monkeypatch.setattr(extract, "EMBEDDED_TABLE", tmp_path / "embedded.txt")
    monkeypatch.setattr(extract, "RECORDS_TABLE", tmp_path / "records.txt")
    extract.main(clients, metadata)

    (record,) = table.read(tmp_path / "records.txt")
    assert (record.name, record.kind, record.is_record, record.key) == ("TopicRecord", "metadata", True, 2)


@pytest.mark.parametrize("record", table.read(table.RECORDS_TABLE), ids=lambda record: record.name)
def test_every_version_of_a_record_comes_back(record: table.Message) -> None:
    ids = ["AAECAwQFBgcICQoLDA0ODw", ""]
    given = {"string": "größe", "int8": -3, "int32": 7, "int64": 2**40, "uuid": ids[0]}
    lists = {"int32": [1, 2, 3], "uuid": ids}
    kind = getattr(records, record.name)
    for version in range(record.versions.first, record.versions.last + 1):
        fields = [field for field in record.fields if version in field.versions]
        value = kind(**{field.python_name: (lists if field.is_array else given)[field.type] for field in fields})
        data = value.encode(version)
        assert kind.decode(data, version) == value
        assert kind.decode(b"ab" + data + b"fields of a later version", version, 2) == value
