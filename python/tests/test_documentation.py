"""Every public name says what it is, and shows it."""

from __future__ import annotations

import inspect

import pytest

import daesy

METHODS = [
    (owner, name)
    for owner in (daesy.Study, daesy.Model, daesy.LinearDae)
    for name, _ in inspect.getmembers(owner, inspect.isfunction)
    if not name.startswith("_")
]


@pytest.mark.parametrize("name", sorted(set(daesy.__all__) - {"time"}))
def test_public_names_have_an_example(name):
    thing = getattr(daesy, name)
    text = inspect.getdoc(thing)
    assert text
    if not (inspect.isclass(thing) and issubclass(thing, Exception) and thing is not daesy.Error):
        assert ">>>" in text or name == "Solution"


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_questions_have_an_example(owner, name):
    text = inspect.getdoc(getattr(owner, name))
    assert text and ">>>" in text


def test_results_document_every_attribute():
    for name in daesy.__all__:
        thing = getattr(daesy, name)
        if inspect.isclass(thing) and issubclass(thing, daesy.Result):
            for attribute, value in inspect.getmembers(thing, lambda value: callable(value) or isinstance(value, property)):
                assert attribute.startswith("_") or inspect.getdoc(value), f"{name}.{attribute}"
