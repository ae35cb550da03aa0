"""Where the documentation is on the web: what the HTML of an estimator links to."""

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

_LABEL = "Documentation, "


@cache
def address() -> str:
    """The package's own `Documentation` among its project URLs; nothing where it names none.

    A path of the machine that drew a notebook would be no link: browsers do not follow it, and others do not have it.
    """
    try:
        urls = metadata("mmdgm").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    return next((url.removeprefix(_LABEL) for url in urls if url.startswith(_LABEL)), "")
