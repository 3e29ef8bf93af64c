"""What the tests share. They run where the package is installed and nothing of the tree beside it."""

import pathlib

import pytest
import tenon

MODEL = pathlib.Path(tenon.__file__).parent / "models" / "tenon-tiny.gguf"

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}


@pytest.fixture(scope="session")
def model():
    return MODEL


@pytest.fixture(scope="session")
def vocab():
    return tenon.Vocab.load(MODEL)


@pytest.fixture(scope="session")
def weather():
    return WEATHER


def pytest_addoption(parser):
    parser.addoption("--torch", action="store_true", help="PyTorch is installed, too")
