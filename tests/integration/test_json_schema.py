#!/usr/bin/python3
"""Checks the output of --json with percore.schema.json."""

import copy
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Skip, check  # noqa: E402
from region_harness import RuntimeDir, run_tests  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../../src/tool/percore.schema.json")


def validator():
    if jsonschema is None:
        raise Skip("python3-jsonschema is missing")
    with open(SCHEMA, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def errors_of(schema, document):
    return [error.message[:300] for error in schema.iter_errors(document)]


def obeys(schema, document):
    errors = errors_of(schema, document)
    check(not errors, f"{document.get('command')}: {errors}")


def test_every_command():
    """every document of every command follows the schema"""
    schema = validator()
    with RuntimeDir() as place:
        producer = place.produce("demo", "--rows", "3", "--workers", "2")
        killed = place.produce("killed")
        killed.kill()
        for arguments in (["load", "-i", "0.2", "-n", "2"],
                          ["regions"],
                          ["top", "demo", "-i", "0.2", "-n", "2"],
                          ["top", "demo", "-i", "0.2", "-n", "1", "-p"],
                          ["regions", "demo"], ["regions", "killed"],
                          ["regions", "--maps"],
                          ["top", "demo", "--totals"],
                          ["top", "demo", "--totals", "--per-core"],
                          ["doctor"]):
            documents = place.documents(*arguments)
            check(documents, f"{arguments}: no document")
            for document in documents:
                obeys(schema, document)
                check(document["hostname"] == os.uname().nodename,
                      str(document["hostname"]))
        producer.end()


def test_instances():
    """documents about all instances of a region follow the schema"""
    schema = validator()
    with RuntimeDir() as place:
        for instance in "east", "west":
            place.produce(f"demo@{instance}", "--rows", "3")
        for arguments in (["top", "demo", "-i", "0.2", "-n", "2"],
                          ["top", "demo", "-i", "0.2", "-n", "1", "-p", "-e"],
                          ["top", "demo", "-a"], ["top", "demo", "-a", "-e", "-p"]):
            documents = place.documents(*arguments)
            check(documents, f"{arguments}: no document")
            for document in documents:
                obeys(schema, document)
                check(document["instances"] == 2, str(document["instances"]))
                threads = [each["instance"] for each in document.get("workers", [])]
                check(threads == ["east", "west"] or "-a" in arguments,
                      str(threads))


def test_hostile_producer():
    """documents about a producer with hostile names follow the schema"""
    schema = validator()
    with RuntimeDir() as place:
        place.produce("hostile", "--hostile")
        for arguments in (["top", "hostile", "-a"], ["regions", "hostile"],
                          ["top", "hostile", "-n", "1", "-i", "0.1"]):
            for document in place.documents(*arguments):
                obeys(schema, document)


def test_no_directory():
    """the document of percore regions follows the schema if the runtime directory does
    not exist"""
    schema = validator()
    with RuntimeDir() as place:
        place.environment["PERCORE_RUNTIME_DIR"] = f"{place.path}/none"
        done = place.run("regions", "--json")
        check(done.returncode == 1 and "install -d" in done.stderr and
              "unset PERCORE_RUNTIME_DIR" in done.stderr, done.stderr)
        document = json.loads(done.stdout)
        obeys(schema, document)
        check(document["regions"] == [] and document["why"], str(document))


def test_the_schema_refuses():
    """the schema refuses a document with a wrong, missing or unknown member"""
    schema = validator()
    with RuntimeDir() as place:
        good = place.documents("load", "-i", "0.2", "-n", "1")[0]
    for change in (lambda document: document.pop("hostname"),
                   lambda document: document.update(unknown=1),
                   lambda document: document["cores"][0].update(load=101),
                   lambda document: document["cores"][0].pop("proof")):
        bad = copy.deepcopy(good)
        change(bad)
        check(errors_of(schema, bad), "the document was not refused")


if __name__ == "__main__":
    run_tests(globals())
