"""A lit test format for trees with a space in their path. A module, since lit sends it to processes."""
import contextlib
import hashlib
import os
import tempfile

import lit.formats
import lit.TestRunner


class WithoutSpaces(lit.formats.ShTest):
    """RUN lines do not quote %s and the like; they get paths through links that have no space."""

    def __init__(self, source, build):
        super().__init__(execute_external=False)
        name = hashlib.sha256((source + "\n" + build).encode()).hexdigest()[:16]
        folder = os.path.join(tempfile.gettempdir(), "sluice-lit-" + name)
        os.makedirs(folder, exist_ok=True)
        self.links = {}
        for kind, path in (("build", build), ("source", source)):
            link = os.path.join(folder, kind)
            if os.path.realpath(link) != os.path.realpath(path):
                with contextlib.suppress(FileExistsError):  # another lit was faster
                    os.symlink(path, link)
            self.links[os.path.realpath(path)] = link

    def through(self, path):
        for real, link in self.links.items():
            if path.startswith(real + os.sep):
                return link + path[len(real):]
        return path

    def execute(self, test, lit_config):
        source = self.through(test.getSourcePath())
        scratch_folder, scratch = map(self.through, lit.TestRunner.getTempPaths(test))
        substitutions = [(r"%s\b", source), (r"%S\b", os.path.dirname(source)),
                         (r"%t\b", scratch + ".tmp"), (r"%T\b", scratch_folder)]
        return lit.TestRunner.executeShTest(test, lit_config, False, substitutions)
