"""Many values in one test, where a case costs less than what pytest does around it; and losses as of a notebook."""

import functools
import inspect
from collections.abc import Callable, Iterable

import torch


def loop(names: str, values: Iterable) -> Callable[[Callable], Callable]:
    """As `pytest.mark.parametrize`, in one test: it goes on after a value that fails, and says which did.

    names: of the parameters, with commas between them. Fixtures are made once for all values.
    """
    values, wanted = list(values), [name.strip() for name in names.split(",")]
    assert values, names

    def decorated(test: Callable) -> Callable:
        @functools.wraps(test)
        def looped(subtests, **fixtures):
            for value in values:
                given = dict(zip(wanted, value, strict=True)) if len(wanted) > 1 else {wanted[0]: value}
                with subtests.test(**{name: _short(each) for name, each in given.items()}):
                    torch.manual_seed(0)  # as `conftest.py` before a test
                    test(**fixtures, **given)

        parameters = inspect.signature(test).parameters
        kept = [parameters[name] for name in parameters if name not in wanted]
        subtests = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        looped.__signature__ = inspect.Signature([subtests, *kept])
        return looped

    return decorated


def _short(value: object) -> str:
    """The name of a value that has one, as a method, else the beginning of its text."""
    return str(getattr(value, "name", getattr(value, "id", value)))[:60]


def in_a_cell(source, name="loss"):
    """What a cell of a notebook defines: known by its code, where a file's is known by all that the file imports."""
    scope = {"__name__": "__main__"}
    exec(source, scope)
    return scope[name]
