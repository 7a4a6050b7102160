"""Fingerprint of a method, stored with its records to detect that it has changed since.

A loss of this library is known by its name, since the commit of a record says which code it was: who changes what it
computes, and not only how, has its records made again (see CONTRIBUTING.md). One of an installed
package by its name and the package's version. A loss of a notebook or of a file of one's own is known by its code: what
Python runs, not the text of a file that may have been edited since, so that comments, docstrings and layout do not
count. To it belong what it uses of its own notebook, what it closes over, defaults and attributes, and of every file of
one's own that it is in or that it imports, all the way, everything that the file defines: whoever follows names alone
misses what is reached by others. Bytecode differs between Python versions: only within one is it compared.
"""

import contextlib
import contextvars
import dis
import functools
import gc
import hashlib
import json
import os
import random
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

from numpy.random import BitGenerator, Generator, RandomState, SeedSequence

from dmlrc import paths
from dmlrc.methods import Method, Space

Fingerprint = Mapping[str, Any]
_OF_EVERY_METHOD = ("dmlrc", "torch", "numpy")
"""Packages whose versions are recorded with the study: the records of all methods depend on them alike."""
_PARTS = {
    "space": "its search space",
    "settings": "its settings",
    "changes": "what it changes of the protocol",
    "batches": "its batches",
    "training": "its training",
}
_BATCHES = ("classes_per_batch", "images_per_class", "sampler")
_NOT_OF_A_CLASS = {*vars(type("", (), {})), "__firstlineno__", "__static_attributes__", "__slotnames__"}
"""Names that Python itself puts into a class."""
_OF_PYTHON = {*vars(types.ModuleType("")), "__builtins__", "__cached__", "__file__", "__path__", "__warningregistry__"}
"""Names that Python itself puts into a file."""
_OF_COMPILERS = ("__builtins_dict__", "__compiled_fn_", "__import_", "__resume_at_")
"""How names begin that torch.compile puts there when a function is called."""
_OF_AN_ARRAY = ("typecode", "format", "dtype", "shape")
_GENERATORS = (random.Random, Generator, RandomState, BitGenerator, SeedSequence)


def fingerprint_of(method: Method) -> dict[str, Any]:
    """The fingerprint of a method, as JSON can hold it: all that decides what its trials and reruns give, but the code
    of this library.

    loss: a name, or {"name", "code"} where the code is one's own. packages: the versions of those that the loss comes
    from or uses. python: of code of one's own. space, settings, changes, batches, training: the method's fields.
    """
    description: dict[str, Any] = _loss(method.loss)
    description["space"] = {name: _range(limits) for name, limits in method.space.items()}
    description |= {"settings": dict(method.settings), "changes": dict(method.changes)}
    description["batches"] = {name: getattr(method, name) for name in _BATCHES}
    if callable(method.sampler):
        own = _loss(method.sampler)
        description["batches"]["sampler"] = own.pop("loss")
        description |= own | {"packages": {**own.get("packages", {}), **description.get("packages", {})}}
    description["training"] = {name: getattr(method, name) for name in ("weight_decay", "optimizer")}
    return json.loads(json.dumps(description, sort_keys=True, default=_plain))


def _range(searched: Space) -> dict[str, Any]:
    """A range as records have it, those too that are older than a part of it that is not set."""
    return {"kind": type(searched).__name__} | {
        name: value for name, value in asdict(searched).items() if value is not None
    }


def differences(old: Fingerprint | None, new: Fingerprint, any_python: bool = False) -> list[str]:
    """Changes of a method, a few words each; empty where records of `old` are records of `new`.

    What only the new one tells was introduced later, with a default that does what was done before. Records that are
    older than fingerprints are those of the library's own losses, and of no other.

    any_python: whether code that two versions of Python compiled, which cannot be compared, counts as equal.
    """
    if old is None:
        return [] if is_of_library(new) else ["of which loss its records are was not written down"]
    changes = []
    pythons = old.get("python"), new.get("python")
    if None not in pythons and pythons[0] != pythons[1]:
        changes += [] if any_python else ["Python {} -> {}, whose code cannot be compared".format(*pythons)]
    elif _identity(old["loss"]) != _identity(new["loss"]):
        changes.append("the source of its loss")
    packages = {name: (version, new.get("packages", {}).get(name)) for name, version in old.get("packages", {}).items()}
    changes += [f"{name} {was} -> {now}" for name, (was, now) in packages.items() if now and was != now]
    for part, word in _PARTS.items():
        fields = part in ("batches", "training")  # all methods have these, so that the old one tells all that it knew
        names = old[part] if fields else sorted({*old[part], *new[part]})
        if changed := [name for name in names if old[part].get(name) != new[part].get(name)]:
            both = ((name, *(_words(fingerprint[part].get(name)) for fingerprint in (old, new))) for name in changed)
            changes.append(f"{word} ({', '.join(f'{name} {was} -> {now}' for name, was, now in both)})")
    return changes


def _identity(loss: str | Mapping[str, str]) -> str:
    return loss if isinstance(loss, str) else loss["code"]


def is_of_library(fingerprint: Fingerprint) -> bool:
    """Tell whether a method's loss is one of this library."""
    loss = fingerprint["loss"]
    return isinstance(loss, str) and ("." not in loss or loss.startswith("dmlrc."))


def _plain(value: Any) -> Any:
    """A number of NumPy, or anything else, as JSON can hold it."""
    return value.item() if hasattr(value, "item") else str(value)


def _words(value: Any) -> str:
    """
    >>> _words({"kind": "Float", "low": 0, "high": 0.5, "log": True}), _words({"kind": "Int", "low": 1, "high": 2})
    ('0 to 0.5 (log)', 'whole numbers from 1 to 2')
    >>> _words(None), _words(0.5), _words({"kind": "Choice", "values": ["cosine", "dot"]})
    ('none', '0.5', 'cosine or dot')
    """
    if isinstance(value, dict) and "code" in value:  # of a sampler, whose name may have stayed
        return f"{value['name']} {value['code'][:8]}"
    if isinstance(value, dict) and "values" in value:
        return " or ".join(map(str, value["values"]))
    if isinstance(value, dict):
        span = f"{value['low']:g} to {value['high']:g}{' (log)' if value.get('log') else ''}"
        span += "" if value.get("first") is None else f", at first {value['first']:g}"
        return f"whole numbers from {span}" if value.get("kind") == "Int" else span
    return "none" if value is None else str(value)


def _loss(loss: Any) -> dict[str, Any]:
    if isinstance(loss, str):
        return {"loss": loss}
    description, reader = _read(loss)
    name = f"{getattr(loss, '__module__', '')}.{getattr(loss, '__qualname__', type(loss).__qualname__)}"
    packages = {"packages": dict(sorted(reader.packages.items()))} if reader.packages else {}
    if description == name:
        return {"loss": name} | packages
    own = {"name": name.rpartition(".")[2], "code": _hash(description)}
    return {"loss": own, "python": "{}.{}".format(*sys.version_info)} | packages


def code(function: Any) -> str:
    """A digest of all that a function is and reaches, and of the versions of the packages that it uses."""
    return _hash(_loss(function))


def description(loss: Any) -> Any:
    """Describe all that the code of a loss is and reaches, as JSON can hold it; of a loss of a package, by the name."""
    return _read(loss)[0]


def files(value: Any) -> dict[str, dict[str, Any]]:
    """Find the files of one's own that a loss, or what holds one, reaches: what each defines, by its module's name."""
    return _read(value)[1].files


def _read(loss: Any) -> tuple[Any, "_Reader"]:
    """Read a loss: its description, and the reader that has met its packages and files.

    Reading it may load a module, which a name that was read before means from then on: then it is read once more.
    """
    while True:
        loaded, reader = set(sys.modules), _Reader()
        description = reader.whole(loss)
        if loaded == set(sys.modules):
            return description, reader


def first_change(old: Any, new: Any) -> str | None:
    """The name of the first value in which two descriptions of one loss differ; None where they are equal."""
    if not all(isinstance(description, dict) for description in (old, new)):
        return _changed(old, new)
    return _changed(old["loss"], new["loss"]) or _changed(old["files"], new["files"])


def _changed(old: Any, new: Any, name: str = "a default or an enclosed value") -> str | None:
    if None in (old, new) or _hash(old) == _hash(new):
        return name if old != new else None
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(key, old.get(key), new.get(key)) for key in sorted({*old, *new})]
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        pairs = [(name, *pair) for pair in zip(old, new, strict=True)]
    else:
        return name
    return next(place for key, *pair in pairs if (place := _changed(*pair, key)))


def _hash(description: Any) -> str:
    return _digest(description, {}).hex()[:16]


def _digest(value: Any, known: dict[int, bytes]) -> bytes:
    """The digest of a description, in which many places may share one part: each part is read once."""
    if isinstance(value, str | int):
        return hashlib.sha256(str(value).encode()).digest()
    if id(value) not in known:
        parts = [part for item in sorted(value.items()) for part in item] if isinstance(value, dict) else value
        joined = type(value).__name__.encode() + b"".join(_digest(part, known) for part in parts)
        known[id(value)] = hashlib.sha256(joined).digest()
    return known[id(value)]


@functools.lru_cache(maxsize=10_000)  # code never changes
def _steps(code: types.CodeType) -> list[tuple[str, Any]]:
    return [(step.opname, step.argval) for step in dis.get_instructions(code)]


class _Reader:
    """Describes objects by strings, lists and dictionaries, each object once; notes the packages and files it meets."""

    def __init__(self):
        self.packages: dict[str, str] = {}
        self._described: dict[int, tuple[Any, Any]] = {}  # id -> the object, which must keep its id; its description
        self._open: list[int] = []  # of the objects that are being described, each a part of the one before
        self.files: dict[str, dict[str, Any]] = {}  # one's own, by their modules' names: what they define

    def whole(self, loss: Any) -> Any:
        """The loss, and where it is not of a package the files that it reaches."""
        description, files = self.tell(loss), {}
        while left := sorted(self.files.keys() - files.keys()):
            files[left[0]] = self._mapping(
                {
                    name: type(value) if isinstance(value, _GENERATORS) else value  # no loss may draw from these
                    for name, value in defined(self.files[left[0]]).items()
                    if not isinstance(value, Method)
                }
            )
        return {"loss": description, "files": files} if files else description

    def tell(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, complex, str, bytes) or value is Ellipsis:
            return f"{type(value).__name__} {value!r}"
        if id(value) in self._open:
            return f"{len(self._open) - self._open.index(id(value))} further up"
        if id(value) not in self._described:
            self._open.append(id(value))
            describe = next((method for kinds, method in self._DESCRIBED if isinstance(value, kinds)), _Reader._object)
            described = describe(self, value)
            if describe in self._OF_ITEMS and type(value).__module__ != "builtins":
                of_its_kind = (getattr(value, name, None) for name in ("__class__", "__dict__", "default_factory"))
                described = [described, *map(self.tell, of_its_kind)]
            self._described[id(value)] = value, described
            self._open.pop()
        return self._described[id(value)][1]

    def _items(self, values: Any) -> Any:
        return [type(values).__name__, *map(self.tell, values)]

    def _set(self, values: Any) -> Any:
        return ["set", *sorted(_hash(self.tell(item)) for item in values)]

    def _dictionary(self, values: Mapping) -> Any:
        """A mapping with the order of its keys, since a loss may loop over it."""
        return [self._mapping(values), [self.tell(key) for key in values]]

    def _mapping(self, values: Mapping) -> Any:
        """Names and values whose order means nothing, as those of a file or of an object's attributes."""
        names = ((key, key if isinstance(key, str) else self.tell(key)) for key in values)
        keys = {name if isinstance(name, str) else _hash(name): key for key, name in names}
        return {name: self.tell(values[keys[name]]) for name in sorted(keys)}

    def _partial(self, value: functools.partial) -> Any:
        return ["partial", self.tell(value.func), self._items(value.args), self._mapping(value.keywords)]

    def _descriptor(self, value: Any) -> Any:
        parts = ("__func__", "fget", "fset", "func")
        return [type(value).__name__, *(self.tell(getattr(value, name)) for name in parts if hasattr(value, name))]

    def _bound(self, value: types.MethodType) -> Any:
        return ["bound", self.tell(value.__func__), self.tell(value.__self__)]

    def _kind(self, value: Any) -> Any:
        """The class alone, of the variables of the shell, and of a cache, which calls fill."""
        return type(value).__qualname__

    def _module(self, value: types.ModuleType) -> Any:
        if self._is_own(value.__name__, vars(value)):
            self.files.setdefault(value.__name__, vars(value))
        return value.__name__

    def _note(self, module: str, names: dict[str, Any]) -> bool:
        """Tell whether a module is one's own, whose file belongs to the loss then; names: what it defines."""
        own = self._is_own(module, names)
        if own and names and module not in ("__main__", "__mp_main__"):  # a notebook defines much beside the loss
            self.files.setdefault(module, names)
        return own

    def _function(self, value: types.FunctionType) -> Any:
        if compiled := getattr(value, "_torchdynamo_orig_callable", None):  # with settings that move at each call
            return ["compiled", self.tell(compiled)]
        cells = [self.tell(_content(lambda cell=cell: cell.cell_contents)) for cell in value.__closure__ or ()]
        if not self._note(value.__globals__.get("__name__", "__main__"), value.__globals__):
            name = f"{value.__module__}.{value.__qualname__}"
            return [name, *cells] if cells else name  # a decorator of a package holds one's own function
        attributes = {key: attribute for key, attribute in vars(value).items() if key != "__wrapped__"}
        defaults = [self.tell(value.__defaults__), self.tell(value.__kwdefaults__)]
        return ["function", *self._code(value.__code__, value.__globals__), cells, defaults, self._mapping(attributes)]

    def _code(self, code: types.CodeType, names: Mapping) -> tuple[Any, Any]:
        """The instructions and arguments of a function and of those inside it, and the global names that they use: all,
        where the code looks them up by words."""
        steps, loaded = [], []
        named = {value for step, value in _steps(code) if step in ("LOAD_GLOBAL", "LOAD_NAME")}
        used = {name: names[name] for name in named & names.keys()}
        loads = not {"import_module", "__import__"}.isdisjoint(code.co_names)
        for step, value in _steps(code):
            inner = isinstance(value, types.CodeType)
            steps.append([step, self._code(value, names) if inner else self.tell(value)])
            if step == "IMPORT_NAME":
                used |= _imported(value, names, *loaded[-2:])
            elif isinstance(value, str) and (module := _named(value, names, loads)):
                used |= {f"module {value}": module} if self._is_own(module.__name__, vars(module)) else {}
            if step.startswith("LOAD_"):
                loaded.append(value)
        if {"globals", "eval", "exec"} & named or ("sys" in named and "modules" in code.co_names):
            self.files.setdefault(names.get("__name__", "__main__"), names)
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & 12  # *args, **rest
        arguments = [*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *counts]
        return [steps, code.co_exceptiontable.hex(), arguments], self._mapping(used)

    def _class(self, value: type) -> Any:
        if not self._note(value.__module__, vars(sys.modules.get(value.__module__, types.SimpleNamespace()))):
            return f"{value.__module__}.{value.__qualname__}"
        body = {name: attribute for name, attribute in vars(value).items() if name not in _NOT_OF_A_CLASS}
        return ["class", self.tell(type(value)), [self.tell(base) for base in value.__bases__], self._mapping(body)]

    def _object(self, value: Any) -> Any:
        """An instance: its class and its contents, as far as they can be seen."""
        kind = self.tell(type(value))
        if kind == "torch._dynamo.eval_frame.OptimizedModule":
            return ["compiled", self.tell(value._orig_mod)]
        if hasattr(value, "detach") and hasattr(value, "dtype"):  # a tensor; a file has the first too
            with contextlib.suppress(RuntimeError):  # sparse, nested, without values: as pickle sees it
                return [kind, str(value.dtype), str(value.detach().cpu().tolist())]
        if hasattr(value, "tobytes"):  # an array
            facts = [str(getattr(value, name, "")) for name in _OF_AN_ARRAY if hasattr(value, name)]
            if getattr(getattr(value, "dtype", None), "hasobject", False):  # whose bytes are places in memory
                return [kind, *facts, self.tell(value.tolist())]
            return [kind, *facts, hashlib.sha256(value.tobytes()).hexdigest()]
        if hasattr(value, "initial_seed"):  # a generator of torch, whose state moves with every draw
            return [kind, str(value.device), value.initial_seed()]
        if isinstance(value, Generator):
            return [kind, str(value.bit_generator.seed_seq.entropy)]
        if isinstance(value, types.GeneratorType) and (frame := value.gi_frame):  # none where it is exhausted
            return [kind, *self._code(value.gi_code, frame.f_globals), self._mapping(frame.f_locals)]
        if isinstance(value, weakref.ReferenceType | contextvars.ContextVar):
            return [kind, self.tell(_content(value if callable(value) else value.get))]
        if isinstance(value, type(iter(set()))):
            return self._set(value.__reduce__()[1][0])
        try:
            reduced = value.__reduce_ex__(2)  # as pickle and copy see it: dictionary, slots, or what it says itself
        except Exception:  # a lock, a socket: it is known by its name, if it has one
            reduced = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
        if isinstance(reduced, str):  # with what a cache or `numpy.frompyfunc` wraps, and TorchScript's code
            inside = [inner for inner in gc.get_referents(value) if isinstance(inner, types.FunctionType)]
            wrapped = getattr(value, "__wrapped__", inside[0] if inside else None)
            return [kind, reduced, self.tell(wrapped), self.tell(getattr(value, "code", None))]
        parts = (list(part) if isinstance(part, Iterator) else part for part in reduced[1:])
        return [kind, [self._mapping(part) if type(part) is dict else self.tell(part) for part in parts]]

    def _is_own(self, module: str, names: Mapping[str, Any]) -> bool:
        """Tell whether a module is a notebook or a file of one's own, which may be called as one of Python's; of any
        other, its package's version is noted."""
        top = module.partition(".")[0]
        if top == "__main__":  # a notebook's, which may say that its file is that of the kernel
            return True
        if top in _OF_EVERY_METHOD:
            return False
        file = names.get("__file__") or getattr(sys.modules.get(top), "__file__", None)
        of_python = top in sys.stdlib_module_names
        if paths.is_own(file) if file else not of_python:
            return True
        self.packages |= {} if of_python else {name: metadata.version(name) for name in _distributions().get(top, ())}
        return False

    _OF_ITEMS = (_items, _set, _dictionary)
    _DESCRIBED = (
        ((list, tuple, deque), _items),
        ((set, frozenset), _set),
        ((type(os.environ), weakref.WeakKeyDictionary), _kind),
        (Mapping, _dictionary),
        (functools.partial, _partial),
        ((staticmethod, classmethod, property, functools.cached_property), _descriptor),
        (types.MethodType, _bound),
        (types.ModuleType, _module),
        (types.FunctionType, _function),
        (type, _class),
    )


_distributions = functools.cache(metadata.packages_distributions)


def defined(names: Mapping[str, Any]) -> dict[str, Any]:
    """The names that a file or a notebook defines, without those that Python, IPython and torch put beside them."""
    shell = names["get_ipython"]() if "get_ipython" in names else None
    hidden = _OF_PYTHON.union(getattr(shell, "user_ns_hidden", ()))
    return {name: value for name, value in names.items() if not (name in hidden or name.startswith(_OF_COMPILERS))}


def _imported(
    name: str, names: Mapping[str, Any], level: int = 0, listed: Sequence[str] | None = None
) -> dict[str, Any]:
    """The module that a function imports when it is called, and what it takes from it, as far as there are such.

    names: of the function. level and listed: how many dots stand before its name, and what stands behind `import`.
    """
    try:
        module = __import__(name, names, None, listed or ("__name__",), level)  # a list: not the first of its packages
    except Exception:  # the function may never come to this line
        return {name: None}
    taken = {f"{name}.{part}": getattr(module, part, None) for part in listed or ()}
    package = name.partition(".")[0]
    return ({} if level or listed else {package: sys.modules.get(package)}) | {name: module} | taken


def _named(text: str, names: Mapping[str, Any], loads: bool) -> types.ModuleType | None:
    """The module of this name, where it is loaded, or where the code may load it: `import_module("helpers")`."""
    name = text.lstrip(".")
    loads = loads and all(map(str.isidentifier, name.split(".")))
    module = _imported(name, names, len(text) - len(name))[name] if loads else sys.modules.get(text)
    return module if isinstance(module, types.ModuleType) else None


def _content(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (ValueError, LookupError):  # not bound yet
        return None
