"""What a package index shows of this project.

An index has neither docs/ nor pictures beside the README. Where `TADDAA_REPOSITORY` holds the address of the repository, as it does
in the release workflow, the README's links are made absolute and the address is listed. Elsewhere the README is packed as it is.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


def absolute(readme: str, repository: str) -> str:
    """Pictures as raw files, other links as pages of the repository; both forms are those of GitHub and GitLab."""
    readme = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\g<1>{repository}/raw/HEAD/", readme)
    return re.sub(r"((?<!!)\[[^]!]*\]\()(?!https?:|#)", rf"\g<1>{repository}/blob/HEAD/", readme)


def urls(repository: str) -> dict[str, str]:
    return {
        "Repository": repository,
        "Documentation": f"{repository}/blob/HEAD/docs/index.md",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


class Shown(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        repository = os.environ.get("TADDAA_REPOSITORY", "").rstrip("/")
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(readme, repository) if repository else readme}
        metadata["urls"] = urls(repository) if repository else {}
