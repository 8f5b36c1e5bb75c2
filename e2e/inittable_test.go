package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// found are the rows of polisctl init, by name, as the user gets them.
func (d *developer) found() map[string]api.Finding {
	d.t.Helper()
	var res struct{ Checks []api.Finding }
	r := d.try("polisctl --json init --base custom --yes")
	require.Zero(d.t, r.code, r)
	require.NoError(d.t, json.Unmarshal([]byte(r.stdout), &res))
	rows := map[string]api.Finding{}
	for _, row := range res.Checks {
		require.NotContains(d.t, rows, row.Name)
		rows[row.Name] = row
	}
	return rows
}

// paste runs a command of the table: what follows sudo as root, all else as the user.
func (d *developer) paste(command string) {
	d.t.Helper()
	for part := range strings.SplitSeq(command, " && ") {
		as, root := strings.CutPrefix(part, "sudo ")
		if !root {
			d.user(part)
			continue
		}
		cmd := exec.CommandContext(d.t.Context(), "bash", "-ec", as)
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "PATH="+d.bin+":"+os.Getenv("PATH"), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
		out, err := cmd.CombinedOutput()
		require.NoError(d.t, err, "%s: %s", part, out)
	}
}

// TestADevelopersMachineInATable: init prints each thing that the machine and the project have, and for what does not work the one
// command, or what to do by hand, which makes its row fine.
func TestADevelopersMachineInATable(t *testing.T) {
	d := newDeveloper(t, "")
	rows := d.found()
	git := "git -C " + d.w.Real + " "
	bridge := bridgeOf(d.net)
	uv := fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", d.w.Uv, d.w.Uv)
	tools := fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", d.w.Tools, d.w.Tools)
	reload := " && sudo kill -HUP"
	global := filepath.Join(d.w.Home, ".config/git/attributes")
	partly := []struct{ name, command string }{
		{"attributes", ""}, // a person decides
		{"line endings", git + "config --replace-all core.autocrlf false"},
		{"hooks", "sudo polisctl config set git.hooks run" + reload},
		{"links and interpreters", "sudo polisctl config set sandbox.extra_mounts '[" + tools + ", " + uv + "]'" + reload},
		{"signing", "sudo polisctl config set merge.sign true" + reload},
		{"filters", "sudo git lfs install --system --skip-repo"},
		{"forwarding", "sudo iptables -I DOCKER-USER -i " + bridge + " -j ACCEPT && sudo iptables -I DOCKER-USER -o " + bridge + " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"},
	}
	for _, want := range partly {
		row := rows[want.name]
		require.Equal(t, api.WorksPartly, row.Works, "%+v", row)
		require.True(t, strings.HasPrefix(row.Command, want.command), "%s\n%s", want.command, row.Command)
		require.Equal(t, want.command == "", row.Command == "", want.name)
		require.NotEmpty(t, row.Fix, want.name)
	}
	for _, name := range []string{"repository", "remotes", "operation in progress", "identity", "ignore files", "sparse checkout", "status settings", "LFS and annex", "submodules", "branches and tags",
		"configuration", "FUSE", "namespaces", "routes", "network of agents", "git"} {
		require.Equal(t, api.WorksOK, rows[name].Works, "%s: %+v", name, rows[name])
	}
	for name, row := range rows { // also of the machine that the test runs on
		require.Equal(t, row.Works != api.WorksOK, row.Fix != "", "%s: %+v", name, row)
		require.Equal(t, row.Works != api.WorksOK, (row.Command == "") != (row.NoCommand == ""), "%s: %+v", name, row)
	}
	page := strings.Join(strings.Fields(strings.ReplaceAll(d.user("polisctl init --base custom --yes"), "\\\n", " ")), " ")
	for _, want := range partly {
		if want.command != "" {
			require.Contains(t, page, "$ "+want.command)
		}
	}

	for _, want := range partly {
		switch want.name {
		case "filters": // it would change the machine that the test runs on
			continue
		case "attributes":
			require.Contains(t, rows[want.name].Found, global)
			require.Contains(t, rows[want.name].NoCommand, "only you know")
			d.user("cat " + global + " >> .gitattributes; git add .gitattributes; git commit -qm 'Attributes of files'")
		case "forwarding": // nft in place of iptables
			d.net.onHost("nft", "insert", "rule", "ip", "filter", "DOCKER-USER", "iifname", bridge, "accept")
			d.net.onHost("nft", "insert", "rule", "ip", "filter", "DOCKER-USER", "oifname", bridge, "ct", "state", "established,related", "accept")
		default:
			d.paste(rows[want.name].Command)
		}
		d.eventually(want.name+" is fine", func() bool { return d.found()[want.name].Works == api.WorksOK })
	}
	require.Empty(t, d.user("git status --porcelain"))

	// They are what agents have: the interpreter, the attributes, the hooks; and merges wait for the user's signature.
	d.addAs("alice")
	require.Equal(t, "interpreter python3\n", d.sh("alice", ".venv/bin/python3"))
	require.Equal(t, d.user("git check-attr diff README.md"), d.sh("alice", "git check-attr diff README.md"))
	r := d.exec("alice", "sh", "-c", "echo AKIA > k; git add k; git commit -qm k")
	require.Contains(t, r.stderr, "a secret is in the commit")
	d.sh("alice", "rm k; git reset -q; echo four >> main.txt; git commit -qam four")
	d.user("polisctl merge alice --sign")
	require.Equal(t, "polis\nalice\n", d.user("git log -1 --format='%(trailers:key=Merged-by,valueonly)%(trailers:key=Polis-Agent,valueonly)' main | grep ."))
	require.Contains(t, d.user("git verify-commit main"), `Good "git" signature for ann@corp.example`)
}
