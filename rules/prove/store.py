"""Proofs that are kept from one run for the next, each as long as nothing changes that decides of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eqsat.egraph.rule import Rule, Soundness
from eqsat.files import cache_folder, replacing
from eqsat.rules.prove.proof import Proof, Status
from eqsat.rules.prove.texts import text_of, version

FORMAT = 1


class Store:
    """Keeps proofs in a folder, a file for each name of a rule. What cannot be read is taken as not there.

    Args:
        folder: where they are; ``proofs`` in eqsat's folder of caches if it is not given.
    """

    def __init__(self, folder: Path | None = None):
        self.folder = cache_folder() / "proofs" if folder is None else folder

    def find(self, rule: Rule, *how: Any) -> Proof | None:
        """The proof of a rule that was found in this way, by the prover as it is, if one is kept."""
        try:
            record = json.loads(self._file(rule).read_text(encoding="utf-8"))
            return _proof(record["proof"]) if record["key"] == _key(rule, how) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, proof: Proof, rule: Rule, *how: Any) -> None:
        """Keep the proof of a rule; where that is not possible, it is found again the next time."""
        record = {"key": _key(rule, how), "proof": told(proof)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self._file(rule)) as file:
                file.write_text(json.dumps(record), encoding="utf-8")
        except OSError:
            return

    def _file(self, rule: Rule) -> Path:
        return self.folder / f"{hashlib.sha256(rule.name.encode()).hexdigest()[:24]}.json"


def _key(rule: Rule, how: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr((FORMAT, version(), text_of(rule), how)).encode()).hexdigest()


def told(proof: Proof) -> dict[str, Any]:
    """A proof as JSON can say it."""
    return asdict(proof) | {"soundness": proof.soundness.value, "status": proof.status.value}


def _proof(record: dict[str, Any]) -> Proof:
    values = {"soundness": Soundness(record["soundness"]), "status": Status(record["status"])}
    return Proof(**record | values | {"assumes": tuple(record["assumes"])})
