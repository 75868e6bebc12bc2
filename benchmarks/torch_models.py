"""PyTorch models, exported and optimized: results, operators, and latency in eager mode beside the model itself.

    .venv/bin/python benchmarks/torch_models.py [--latency | --compile eager | --compile inductor] [NAME…]

A NAME is one of a model, or ``transformers`` or ``timm`` for all of these. With ``--compile`` each model is compiled by
``torch.compile(model, backend="eqsat", fullgraph=True)``, and measured beside eager mode or Inductor alone: what one
call takes, and the CPU time of compilation, both without caches of Inductor's.

Models have random weights and few layers; nothing is downloaded. ``transformers`` and ``timm`` have to be installed.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._inductor.config as inductor

import eqsat.torch
from eqsat.torch import compiling as backend

_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_TEXT = {**_SMALL, "vocab_size": 100, "max_position_embeddings": 64}
_DECODER = {**_TEXT, "num_key_value_heads": 2, "pad_token_id": 0}
_GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64}
_IMAGE = {**_SMALL, "image_size": 32, "patch_size": 8}

TRANSFORMERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "Albert": ("AlbertModel", {**_TEXT, "embedding_size": 32}, "text"),
    "Bert": ("BertModel", _TEXT, "text"),
    "Bloom": ("BloomModel", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100}, "text"),
    "CLIPVision": ("CLIPVisionModel", _IMAGE, "image"),
    "ConvNext": ("ConvNextModel", {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2}, "image"),
    "DeiT": ("DeiTModel", _IMAGE, "image"),
    "Dinov2": ("Dinov2Model", _IMAGE, "image"),
    "DistilBert": (
        "DistilBertModel",
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 100},
        "text",
    ),
    "Electra": ("ElectraModel", {**_TEXT, "embedding_size": 32}, "text"),
    "Falcon": (
        "FalconModel",
        {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100},
        "text",
    ),
    "Gemma": ("GemmaModel", {**_DECODER, "head_dim": 16}, "text"),
    "Gemma2": ("Gemma2Model", {**_DECODER, "head_dim": 16}, "text"),
    "GPT2": ("GPT2Model", {**_GPT, "bos_token_id": 1, "eos_token_id": 2}, "text"),
    "GPTNeoX": ("GPTNeoXModel", _TEXT, "text"),
    "GPTJ": ("GPTJModel", {**_GPT, "rotary_dim": 8, "bos_token_id": 1, "eos_token_id": 2}, "text"),
    "Llama": ("LlamaModel", _DECODER, "text"),
    "Mistral": ("MistralModel", _DECODER, "text"),
    "MPNet": ("MPNetModel", _TEXT, "text"),
    "OPT": ("OPTModel", {**_TEXT, "ffn_dim": 128, "word_embed_proj_dim": 64}, "text"),
    "Phi": ("PhiModel", _TEXT, "text"),
    "Qwen2": ("Qwen2Model", _DECODER, "text"),
    "Qwen3": ("Qwen3Model", {**_DECODER, "head_dim": 16}, "text"),
    "Roberta": ("RobertaModel", _TEXT, "text"),
    "StableLm": ("StableLmModel", _DECODER, "text"),
    "T5Encoder": (
        "T5EncoderModel",
        {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 100},
        "text",
    ),
    "ViT": ("ViTModel", _IMAGE, "image"),
    "XLMRoberta": ("XLMRobertaModel", _TEXT, "text"),
}
"""Architecture -> class of the model, what its configuration says, and what it takes."""

TIMM = (
    "resnet18", "resnet26d", "resnext26ts", "regnetx_002", "regnety_002", "densenet121", "mobilenetv2_050",
    "mobilenetv3_small_050", "mobilenetv4_conv_small_035", "efficientnet_b0", "efficientnet_lite0", "mnasnet_small",
    "ghostnet_050", "hardcorenas_a", "tinynet_e", "convnext_atto", "convnextv2_atto", "fbnetc_100", "semnasnet_075",
    "vit_tiny_patch16_224", "deit_tiny_patch16_224", "cait_xxs24_224", "mixer_s32_224", "resmlp_12_224",
    "levit_128s", "poolformer_s12", "edgenext_xx_small", "repvgg_a0", "dla46_c", "lcnet_050",
)  # fmt: skip


def transformer(name: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """A tiny model and an input of it."""
    import transformers

    model_name, said, kind = TRANSFORMERS[name]
    model_class = getattr(transformers, model_name)
    config = model_class.config_class(**said)
    config.use_cache = False
    model = model_class(config).eval()
    given = torch.randint(3, 100, (2, 16)) if kind == "text" else torch.randn(2, 3, 32, 32)
    return model, (given,)


def image_model(name: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """A model of timm and an input of it."""
    import timm

    model = timm.create_model(name, pretrained=False).eval()
    with torch.no_grad():  # what starts as one number, as scales and statistics do, would hide what is wrong
        for value in (*model.parameters(), *model.buffers()):
            if value.is_floating_point() and value.numel() and bool((value == value.flatten()[0]).all()):
                value += 0.1 * torch.rand_like(value)
    return model, (torch.randn(1, *model.default_cfg["input_size"]),)


def calls(graph: torch.fx.Graph) -> Counter[str]:
    """How often each operator is called."""
    return Counter(str(node.target) for node in graph.nodes if node.op == "call_function")


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in what a model gives."""
    return [each for each in torch.utils._pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]


def largest_difference(left: Any, right: Any) -> float:
    """The largest difference of two results, relative to the largest number in them."""
    pairs = list(zip(tensors(left), tensors(right), strict=True))
    return max((float((a - b).abs().max() / a.abs().max().clamp_min(1e-6)) for a, b in pairs if a.numel()), default=0.0)


def ratio(first: Callable[[], Any], second: Callable[[], Any], rounds: int = 15) -> float:
    """What ``second`` takes over what ``first`` does: the median of runs taken in turns."""
    found = []
    for work in (first, second):
        work()
    for _ in range(rounds):
        times = []
        for work in (first, second):
            start = time.perf_counter()
            for _ in range(3):
                work()
            times.append(time.perf_counter() - start)
        found.append(times[1] / times[0])
    return statistics.median(found)


def measure(name: str, model: torch.nn.Module, inputs: tuple[Any, ...], latency: bool) -> tuple[bool, float | None]:
    """Export, optimize and compare one model; print a row of the table."""
    with torch.no_grad():
        program = torch.export.export(model, inputs, strict=False)
        start = time.perf_counter()
        found = eqsat.torch.run(program)
        seconds = time.perf_counter() - start
        difference = largest_difference(model(*inputs), found.program.module()(*inputs))
        share = None
        if latency:
            given, optimized = program.module(), found.program.module()
            share = ratio(lambda: given(*inputs), lambda: optimized(*inputs))
    before, after = sum(calls(program.graph).values()), sum(calls(found.program.graph).values())
    shown = f"{share:8.2f}" if share is not None else ""
    opaque = ", ".join(f"{target.removeprefix('aten.')}" for target in sorted(found.opaque))
    print(f"{name:28} {before:6} {after:6} {difference:9.1e} {seconds:7.1f} {shown}  {opaque}", flush=True)
    return difference < 1e-3, share


def quartiles(works: Sequence[Callable[[], Any]], calls: int = 5, seconds: float = 10.0) -> list[float]:
    """What one call of each takes, in seconds: the lowest quartile of runs taken in turns, 15 or more of each."""
    found: list[list[float]] = [[] for _ in works]
    for work in works:
        for _ in range(3):
            work()
    start = time.perf_counter()
    while len(found[0]) < 15 or (time.perf_counter() - start < seconds and len(found[0]) < 200):
        for times, work in zip(found, works, strict=True):
            began = time.perf_counter()
            for _ in range(calls):
                work()
            times.append((time.perf_counter() - began) / calls)
    return [statistics.quantiles(times, n=4)[0] for times in found]


def cpu_seconds() -> float:
    """CPU time of this process and of those that it has waited for."""
    used = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure_compiled(name: str, model: torch.nn.Module, inputs: tuple[Any, ...], then: str) -> tuple[bool, list[float]]:
    """Compile one model without and with eqsat, and compare; print a row of the table.

    Returns:
        Whether results are right and nothing fell back; latency and compile time over those of what runs alone.
    """
    alone = {"backend": "aot_eager"} if then == "eager" else {}
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        backend._tell.cache_clear()
        expected, works, seconds, differences = model(*inputs), [], [], []
        for more in (alone, {"backend": "eqsat", "options": {"then": then}}):
            torch._dynamo.reset()
            compiled = torch.compile(model, fullgraph=True, **more)
            start = cpu_seconds()
            differences.append(largest_difference(expected, compiled(*inputs)))
            seconds.append(cpu_seconds() - start)
            works.append(lambda compiled=compiled: compiled(*inputs))
        times = quartiles([lambda: model(*inputs), *works])
    against = times[0] if then == "eager" else times[1]
    fell_back = [str(each.message) for each in told if str(each.message).startswith("eqsat leaves")]
    ratios = [times[2] / against, seconds[1] / seconds[0]]
    shown = " ".join(f"{1e3 * each:9.3f}" for each in times)
    shown += f" {ratios[0]:9.3f} {differences[1]:9.1e} {seconds[0]:8.1f} {seconds[1]:8.1f}"
    print(f"{name:28} {shown}  {fell_back or ''}", flush=True)
    return differences[1] < 1e-3 and not fell_back, ratios


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the models that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["transformers", "timm"])
    parser.add_argument("--latency", action="store_true", help="measure latency, too")
    parser.add_argument("--compile", choices=("eager", "inductor"), help="measure torch.compile instead")
    asked = parser.parse_args(arguments)
    names = [
        one for name in asked.names for one in {"transformers": list(TRANSFORMERS), "timm": TIMM}.get(name, [name])
    ]
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    inductor.force_disable_caches, inductor.compile_threads = True, 1
    if asked.compile:
        alone = "AOT eager" if asked.compile == "eager" else "Inductor"
        print(
            f"milliseconds a call in eager mode, by {alone}, and by eqsat; CPU seconds of compilation by the last two"
        )
        print(
            f"{'model':28} {'eager':>9} {alone:>9} {'eqsat':>9} {'ratio':>9} {'differs':>9} {'alone':>8} {'eqsat':>8}"
        )
    else:
        print(f"{'model':28} {'calls':>6} {'after':>6} {'differs':>9} {'seconds':>7}  not understood")
    equal, shares, compiling, failed = 0, [], [], []
    for name in names:
        try:
            model, inputs = transformer(name) if name in TRANSFORMERS else image_model(name)
            if asked.compile:
                is_equal, (share, over) = measure_compiled(name, model, inputs, asked.compile)
                compiling.append(over)
            else:
                is_equal, share = measure(name, model, inputs, asked.latency)
            equal += is_equal
            shares += [] if share is None else [share]
        except Exception as error:  # one model that fails is told, and the rest are measured
            failed.append(name)
            print(f"{name:28} {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
    print(f"{equal} of {len(names)} give the results of eager mode; failed: {', '.join(failed) or 'none'}")
    if compiling:
        against = "eager mode" if asked.compile == "eager" else "Inductor alone"
        print(
            f"latency over that of {against}: {mean(shares):.3f}; CPU time of compilation: {mean(compiling):.3f} times"
        )
    elif shares:
        print(f"latency over that of the exported program: {mean(shares):.3f} (geometric mean)")


if __name__ == "__main__":
    main()
