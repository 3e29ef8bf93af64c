# Finds the files of packages, and of what they require, as an object of JSON on descriptor 3. It is
# started as `python3 -I -B -c <this text> PACKAGE...`, by the interpreter as its user starts it.
# Python 3.9 and later.
import importlib
import json
import os
import re
import sys
from importlib import metadata


def plain(name):
    """A package's name in the form in which all its spellings are one."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imports(found):
    """What code imports: the names in top_level.txt, which older packages have, else those of the files."""
    names = (found.read_text("top_level.txt") or "").split()
    if not names:
        code = [file.parts for file in found.files or () if file.name.endswith((".py", ".so"))]
        names = [parts[0] if len(parts) > 1 else parts[0].partition(".")[0] for parts in code]
    names = sorted({name for name in names if name.isidentifier()})
    names = [name for name in names if not name.startswith("_")] or names
    package = found.metadata["Name"]
    return [name if plain(name) == plain(package) else f"{name} ({package})" for name in names]


asked = {plain(name): name for name in sys.argv[1:]}
wanted, seen, entries, homes, packages, modules = list(asked), set(), set(), [], {}, []
while wanted:
    name = plain(wanted.pop())
    if name in seen:
        continue
    seen.add(name)
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue  # a requirement that is not there may be optional
    home = os.path.realpath(str(found.locate_file("")))
    if home not in homes:
        homes.append(home)
    tops = {file.parts[0] for file in found.files or () if file.parts}
    tops.update((found.read_text("top_level.txt") or "").split())
    for top in sorted(tops - {"..", "__pycache__"}):
        for path in (os.path.join(home, top), os.path.join(home, top + ".py")):
            if os.path.dirname(path) != home or not os.path.exists(path):
                continue
            entries.add(path)
            if name in asked and not top.endswith((".dist-info", ".egg-info", ".libs")):
                modules.append(top.partition(".")[0])
    if name in asked:
        packages[name] = imports(found)
    for line in found.requires or ():
        if "extra" not in line.partition(";")[2]:
            wanted.append(re.match(r"[A-Za-z0-9._-]+", line).group())

# Packages load shared objects when they are imported.
for module in modules:
    try:
        importlib.import_module(module)
    except (Exception, SystemExit):
        pass


def is_in_homes(folder):
    return any(folder == home or folder.startswith(home + "/") for home in homes)


# Which packages have a module, by the module's name (Python 3.10): bs4 is one of beautifulsoup4.
is_any_missing = len(packages) < len(asked)
owners = getattr(metadata, "packages_distributions", dict)() if is_any_missing else {}
told = [
    {
        "name": asked[name],
        "is_installed": name in packages,
        "is_standard": asked[name] in getattr(sys, "stdlib_module_names", ()),  # Python 3.10
        "imports": packages.get(name, []),
        "instead": "" if name in packages else next(iter(owners.get(asked[name], [])), ""),
    }
    for name in asked
]
closed = [
    folder
    for folder in sys.path
    if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK)
]
with open(3, "w") as out:
    json.dump(
        {
            "packages": told,
            "closed": closed,
            "entries": sorted(entries),
            "homes": homes,
            "shared": [folder for folder in sorted(shared_folders()) if not is_in_homes(folder)],
        },
        out,
    )
