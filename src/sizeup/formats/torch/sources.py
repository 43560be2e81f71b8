"""Build models from names: torchvision:NAME, timm:NAME, hf:FILE and package.module:factory."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sizeup.errors import LoadError, MissingLibrary
from sizeup.formats.torch.construction import construct
from sizeup.formats.torch.eager import fake_mode
from sizeup.formats.torch.failures import described
from sizeup.formats.torch.inputs import is_shape
from sizeup.formats.torch.zoo import BuiltModel, import_torchvision, offline

_IMAGE = (1, 3, 224, 224)


def build(source: str, bind: Mapping[str, int]) -> BuiltModel:
    """Build the model of a name, without pretrained weights or downloads."""
    prefix, _, rest = source.partition(":")
    if not rest:
        raise LoadError(f"{source}: no name after the colon")
    if prefix == "hf":
        from sizeup.formats.torch.huggingface import build_configuration

        return build_configuration(rest, bind)
    unknown = sorted(set(bind) - {"batch"})
    if unknown:
        raise LoadError(f"{source}: cannot bind {', '.join(unknown)}; bind batch, or pass --input")
    built = {"torchvision": _torchvision, "timm": _timm}.get(prefix, _factory)(source)
    if "batch" not in bind:
        return built
    if not isinstance(built.inputs, tuple) or not all(map(is_shape, built.inputs)):
        raise LoadError(f"{source}: cannot bind batch because the input shapes are unknown; pass --input")
    shapes = tuple((bind["batch"], *shape[1:]) for shape in built.inputs)
    return replace(built, inputs=shapes)


def names(zoo: str) -> list[str]:
    """Return the names of all models of timm or torchvision."""
    listing = _timm_models(f"{zoo}:*") if zoo == "timm" else _torchvision_models(f"{zoo}:*")
    return list(listing.list_models())


def _torchvision_models(source: str) -> Any:
    if import_torchvision() is None:
        raise MissingLibrary(source, "torchvision")
    return importlib.import_module("torchvision.models")


def _timm_models(source: str) -> Any:
    import_torchvision()  # timm imports it, and fails if that fails
    try:
        return importlib.import_module("timm")
    except ModuleNotFoundError as error:
        raise MissingLibrary(source, "timm") from error


def _torchvision(source: str) -> BuiltModel:
    name = source.partition(":")[2]
    models = _torchvision_models(source)
    if name not in models.list_models():
        raise LoadError(f"torchvision has no model {name!r}{_nearest(name, models.list_models())}")
    if any(part in name for part in ("rcnn", "retinanet", "fcos", "ssd")):
        raise LoadError(
            f"{source}: detectors take lists of images; use a package.module:factory that returns"
            " (module, inputs)"
        )
    builder = models.get_model_builder(name)
    accepted = inspect.signature(builder).parameters
    options: dict[str, Any] = {"weights_backbone": None} if "weights_backbone" in accepted else {}
    if name in ("inception_v3", "googlenet"):
        options["init_weights"] = False
    mode = fake_mode()

    def make() -> torch.nn.Module:
        return builder(weights=None, **options)  # type: ignore[no-any-return]

    module = construct(make, mode, source)
    return BuiltModel(module, name, _TORCHVISION_INPUTS.get(name, (_IMAGE,)), mode=mode, make_real=make)


_CLIP = (1, 3, 16, 112, 112)
_FLOW = ((1, 3, 368, 496), (1, 3, 368, 496))
_TORCHVISION_INPUTS: dict[str, tuple[tuple[int, ...], ...]] = {
    "inception_v3": ((1, 3, 299, 299),),
    "r3d_18": (_CLIP,),
    "mc3_18": (_CLIP,),
    "r2plus1d_18": (_CLIP,),
    "s3d": ((1, 3, 16, 224, 224),),
    "mvit_v1_b": ((1, 3, 16, 224, 224),),
    "mvit_v2_s": ((1, 3, 16, 224, 224),),
    "swin3d_t": ((1, 3, 16, 224, 224),),
    "swin3d_s": ((1, 3, 16, 224, 224),),
    "swin3d_b": ((1, 3, 16, 224, 224),),
    "raft_large": _FLOW,
    "raft_small": _FLOW,
}


def _timm(source: str) -> BuiltModel:
    name = source.partition(":")[2]
    if ":" in name or "/" in name:
        raise LoadError(
            f"{source}: repositories and folders are not supported, because sizeup makes no network requests;"
            " use the name of a timm model"
        )
    timm = _timm_models(source)
    if not timm.is_model(name):
        raise LoadError(f"timm has no model {name!r}{_nearest(name, timm.list_models())}")
    mode = fake_mode()

    def make() -> torch.nn.Module:
        with offline():
            return timm.create_model(name, pretrained=False)  # type: ignore[no-any-return]

    module = construct(make, mode, source)
    size = getattr(module, "pretrained_cfg", {}).get("input_size", _IMAGE[1:])
    return BuiltModel(module, name, ((1, *size),), mode=mode, make_real=make)


def _factory(source: str) -> BuiltModel:
    """Call `package.module:factory` without arguments; it returns a module or (module, inputs)."""
    path, _, attribute = source.partition(":")
    with _importable(str(Path.cwd())):
        try:
            target: Any = importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name and (path == error.name or path.startswith(f"{error.name}.")):
                raise LoadError(
                    f"{source}: no such file, and no module {path!r};"
                    " run sizeup in the module's folder or add that folder to PYTHONPATH"
                ) from error
            raise LoadError(f"{source}: importing {path} failed: {described(error)}") from error
        except Exception as error:
            raise LoadError(f"{source}: importing {path} failed: {described(error)}") from error
        for part in attribute.split("."):
            if not hasattr(target, part):
                public = [name for name in dir(target) if not name.startswith("_")]
                raise LoadError(f"{source}: {path} has no {part!r}{_nearest(part, public)}")
            target = getattr(target, part)
        try:
            result = target if isinstance(target, torch.nn.Module) else target()
        except Exception as error:
            raise LoadError(f"{source}: calling it failed: {described(error)}") from error
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], torch.nn.Module):
        return BuiltModel(result[0], attribute, result[1])
    if not isinstance(result, torch.nn.Module):
        raise LoadError(f"{source}: returned a {type(result).__name__}, not a torch.nn.Module")
    return BuiltModel(result, attribute)


@contextlib.contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Make the modules of a folder importable, as with `python -m`."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""
