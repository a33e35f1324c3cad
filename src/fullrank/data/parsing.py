"""JSON and YAML from files that may be damaged: what is wrong is a ValueError."""

import json
from collections.abc import Hashable
from typing import Any

import yaml

_TOO_DEEP = "it is nested too deeply"


def parse_json(text: str) -> Any:
    """The value in a JSON text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def parse_yaml(text: str) -> Any:
    """The value in a YAML text, of the kinds that JSON has too."""
    try:
        return yaml.load(text, _Loader)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


class _Loader(yaml.SafeLoader):
    """YAML without aliases, tags and dates, in which no key may occur twice.

    A few lines of aliases can stand for more values than fit in memory, and what a tag
    or a date is made of need not be one.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            _refuse("aliases (*name) are not supported", event)
        if getattr(event, "tag", None) is not None:
            _refuse(f"tags ({event.tag}) are not supported", event)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                _refuse("a key must be a single value", key_node)
            if key in keys:
                _refuse(f"the key {key!r} is there twice", key_node)
            keys.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    start: [(tag, pattern) for tag, pattern in resolvers if "timestamp" not in tag]
    for start, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _refuse(problem: str, place: Any) -> None:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)
