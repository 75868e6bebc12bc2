"""Proofs that are kept from one run for the next, each as long as nothing changes that decides of it."""

from __future__ import annotations

import functools
import hashlib
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from eqsat import nd
from eqsat.egraph.rule import PythonRule, Rewrite, Rule, Soundness
from eqsat.egraph.rule_version import digest_of, version_of
from eqsat.files import cache_folder, find_kept, keep
from eqsat.rules.prove.proof import Proof, Status
from eqsat.rules.verify.examples import examples_of

FORMAT = 2


_SOURCES = ("egraph", "relay", "rules/prove", "rules/verify", "nd.py")
"""What decides of a proof, beside the rule."""


class Store:
    """Keeps proofs in a folder, a file for each name of a rule. What cannot be read is taken as not there.

    Args:
        folder: where they are; ``proofs`` in eqsat's folder of caches if it is not given.
    """

    def __init__(self, folder: Path | None = None):
        self.folder = cache_folder() / "proofs" if folder is None else folder

    def find(self, rule: Rule, *how: Any) -> Proof | None:
        """The proof of a rule that was found in this way, by the prover as it is, if one is kept."""
        record = find_kept(self._file(rule), _key(rule, how))
        return None if record is None else _proof(record)

    def keep(self, proof: Proof, rule: Rule, *how: Any) -> None:
        """Keep the proof of a rule; where that is not possible, it is found again the next time."""
        keep(self._file(rule), _key(rule, how), told(proof))

    def _file(self, rule: Rule) -> Path:
        return self.folder / f"{hashlib.sha256(rule.name.encode()).hexdigest()[:24]}.json"


def _key(rule: Rule, how: tuple[Any, ...]) -> str:
    drawn = digest_of(examples_of(rule)) if isinstance(rule, (Rewrite, PythonRule)) else ""
    return hashlib.sha256(repr((FORMAT, _version(), version_of(rule), drawn, how)).encode()).hexdigest()


@functools.cache
def _version() -> str:
    """What tells this version of the operators, the engine and the prover from others."""
    digest = hashlib.sha256(f"{platform.python_version()} {np.__version__}".encode())
    top = Path(nd.__file__).parent
    for source in _SOURCES:
        files = sorted((top / source).rglob("*.py")) if (top / source).is_dir() else [top / source]
        for file in files:
            if "examples" not in file.parts:
                digest.update(file.read_bytes())
    return digest.hexdigest()


def told(proof: Proof) -> dict[str, Any]:
    """A proof as JSON can say it."""
    return asdict(proof) | {"soundness": proof.soundness.value, "status": proof.status.value}


def _proof(record: dict[str, Any]) -> Proof:
    values = {"soundness": Soundness(record["soundness"]), "status": Status(record["status"])}
    return Proof(**record | values | {name: tuple(record[name]) for name in ("assumes", "bits")})
