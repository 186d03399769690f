"""Every command of docs/packages.md, in the page's order: installed, backed up, restored, upgraded, rolled back, uninstalled."""

from docs.console import blocks
from packages import build
from packages.build import ROOT
from packages.test_life import CONFIG, check_installed

# As for an administrator who answers yes.
APT = 'APT::Get::Assume-Yes "true";\nDPkg::Options {"--force-confold";};\n'


def test_every_command_of_the_page(tree, built, tmp_path):
    stand_in = (ROOT / "tests" / "packages" / "systemctl").read_text()
    tree.write("/usr/bin/systemctl", stand_in, mode=0o755)
    # The package's scripts start and stop what they find a manager for.
    tree.shell("mkdir -p /run/systemd/system; rm /usr/sbin/policy-rc.d")
    tree.write("/etc/apt/apt.conf.d/99test", APT)
    newer = build.older(built["gnudi"], tmp_path, "0.2.0-1")
    for package, name in ((built["gnudi"], "gnudi_0.1.0-1_amd64.deb"), (newer, "gnudi_0.2.0-1_amd64.deb"),
                          (built["gnudi-gnocchi-compat"], "gnudi-gnocchi-compat_0.1.0-1_all.deb")):
        (place,) = tree.put(package)
        tree.shell(f"mv {place} /root/{name}" if name not in place else f"cp {place} /root/{name}")
    ran = 0
    for block in blocks((ROOT / "docs" / "packages.md").read_text()):
        for command in block:
            line = f"export PATH=/usr/local/sbin:/usr/local/bin:$PATH GNOCCHI_USER=admin; cd /root; {command.text}"
            done = tree.run("bash", "-c", line, check=False)
            printed = [text for text in (done.stdout + done.stderr).splitlines() if text] if command.printed else []
            assert printed == [text for text in command.printed if text], (command.text, done)
            assert done.returncode == 0 or command.text.startswith("ls "), (command.text, done)
            ran += 1
            if ran == 1:
                check_installed(tree)
                tree.shell(f"echo '# Edited.' >>{CONFIG}")
            elif "0.2.0" in command.text:
                assert tree.shell("dpkg-query --showformat='${Version}' --show gnudi") == "0.2.0-1"
                # The newer version's has another line, too.
                assert tree.shell(f"tail -n 1 {CONFIG}") == "# Edited.\n"
    assert ran >= 20
    # An upgrade and a way back are one restart each, and what is removed has been stopped.
    calls = tree.shell("grep -E 'gnudi-serve' /run/systemctl.log")
    assert sum("restart" in call for call in calls.splitlines()) == 2, calls
    assert tree.run("sh", "-c", "readlink /proc/$(cat /run/gnudi-serve.pid)/exe", check=False).stdout == ""
