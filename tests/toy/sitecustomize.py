"""Where this folder is on a process's path, the process knows the tests' own protocol.

It is registered when the registry is loaded, and not before: a side confines itself first.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder

_REGISTRY = "spinney.jobs.registry"


class _Registering(MetaPathFinder):
    """Finds the registry as usual, and adds the protocol once it is loaded."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        found = PathFinder.find_spec(fullname, path, target)
        assert found is not None
        assert isinstance(found.loader, Loader)
        load = found.loader.exec_module

        def loaded(module):
            load(module)
            import toy_protocol  # type: ignore[import-not-found]  # noqa: PLC0415

            module.SPECS[toy_protocol.NAME] = toy_protocol.SPEC

        found.loader.exec_module = loaded  # type: ignore[method-assign]
        return found


sys.meta_path.insert(0, _Registering())
