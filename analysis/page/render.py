"""Write the page: one HTML file that contains its style, its scripts and all data."""

import base64
import hashlib
import importlib.util
import re
from collections.abc import Sequence
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any

from analysis.records.derive import read_cache_file, write_cache
from analysis.records.environments import Facts
from analysis.report.choice import MOST_FIGURES
from analysis.report.parts import ReportData
from analysis.shared.output import write
from benchkit.errors import ConfigError

FILE_NAME = "report.html"
FOLDER = Path(__file__).parent
SCRIPTS = ("numbers.js", "figures.js", "samples.js", "tables.js", "page.js")
"""Scripts of the page in order; they run as one module."""
LIBRARY, EXPOSED = "drawing_library", "window.vegaEmbed = vegaEmbed;"
"""Cache file of the drawing library, and the statement that exposes its entry point."""
LIBRARIES = ("altair", "jinja2", "markdown_it", "vl_convert")


def require_libraries() -> None:
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"--html: needs {', '.join(missing)}; pip install 'benchkit[html]'")


def write_page(
    parts: ReportData,
    folder: Path,
    environments: Sequence[Facts],
    most_figures: int | None = MOST_FIGURES,
) -> Path:
    """Write the page into a folder; return its path.

    Args:
        parts: report data with rows `with_ids`.
        environments: one per record.
        most_figures: largest number of figures; None for all.

    Raises:
        OSError: the folder is not writable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return write(folder, FILE_NAME, render(parts, environments, most_figures))


def render(
    parts: ReportData, environments: Sequence[Facts], most_figures: int | None = MOST_FIGURES
) -> str:
    """Return the page; the arguments are those of `write_page`."""
    # Optional dependencies: other modules of analysis must work without them.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from analysis.page.content import content_of
    from analysis.page.figures import NUM_BINS, SPARK_HEIGHT, sample_specs

    content = content_of(parts, environments, most_figures)
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters["code"] = with_code
    library = escape_script(drawing_library())
    script = escape_script(
        "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    )
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    return environment.get_template("template.html.j2").render(
        content=content,
        style=Markup(style),
        library=Markup(library),
        script=Markup(script),
        policy=policy([library, script], style),
        data=data_of(content),
        specs=sample_specs(),
        spark_box=f"0 0 {NUM_BINS} {SPARK_HEIGHT}",
    )


def with_code(text: str) -> Any:
    """Escape a sentence, and turn its backticks into code elements."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def data_of(content: Any) -> dict[str, Any]:
    """Return the data of the scripts: figures and rows by id."""
    figures: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    for suite in content.suites:
        figures |= {figure.id: figure.data for figure in suite.figures}
        table = suite.measurements
        for row in table.rows:
            rows[row.id] = {
                "name": row.name,
                "chosen": table.chosen[row.id],
                "samples": [
                    sample_id for sample_id in table.members[row.id] if sample_id in content.samples
                ],
            }
    return {"figures": figures, "rows": rows}


def drawing_library() -> str:
    """Return the source of Vega, Vega-Lite and Vega-Embed in the version of the specifications.

    It is bundled once, which takes seconds, and cached.
    """
    import altair
    import vl_convert

    version = altair.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    bundler = distribution_version("vl-convert-python")
    fingerprint = hashlib.sha256(f"{version} {bundler} {EXPOSED}".encode()).digest()
    if cached := bytes(read_cache_file(LIBRARY, lambda: fingerprint)):
        return cached.decode()
    library = vl_convert.javascript_bundle(EXPOSED, version)
    write_cache(LIBRARY, fingerprint, library.encode())
    return library


def escape_script(script: str) -> str:
    """Escape a script for a script element of HTML."""
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def policy(scripts: Sequence[str], style: str) -> str:
    """Return a Content-Security-Policy that allows these scripts and this style, and no fetch."""
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join(map(digest, scripts)),
        "style-src": digest(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
