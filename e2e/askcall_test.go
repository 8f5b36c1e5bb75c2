package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// toolProgram is an agent's program as its tools work: it calls the hook before and after a tool, and reads and writes files
// itself. Every line of its argument is a step; a refused step is printed, and the next one follows.
const toolProgram = `import json, os, subprocess, sys, time

def hook(event, tool, path, said=""):
    call = {"session_id": "s", "hook_event_name": event, "tool_name": tool, "tool_use_id": "t", "cwd": os.getcwd(),
        "tool_input": {"file_path": path, "old_string": "secret", "new_string": "changed"}}
    r = subprocess.run("polisctl hook " + said + "claude || exit 2", shell=True, input=json.dumps(call), text=True, stdout=subprocess.PIPE)
    return r.stdout

def edit(path, text):
    tmp = "%s.tmp.%d.0123456789ab" % (path, os.getpid())
    with open(tmp, "w") as f: f.write(text)
    os.rename(tmp, path)

def wait(path):
    while not os.path.exists(os.path.expanduser("~/" + path)): time.sleep(0.02)

def sh(command):
    if subprocess.run(command, shell=True).returncode: raise OSError(command)

before = lambda tool, path: print(json.loads(hook("PreToolUse", tool, path))["hookSpecificOutput"]["permissionDecision"])
after = lambda tool, path: hook("PostToolUse", tool, path, "--said ")
for line in sys.argv[1].splitlines():
    if not line.strip(): continue
    try: exec(line.strip())
    except OSError as e: print("refused:", line.strip())
`

// tools are the questions of a program that does the steps, all of which are approved, and what it printed.
func (d *daemon) tools(agent, steps string) (questions []string, printed string) {
	d.t.Helper()
	r, questions := d.approved(agent, d.toolScript(steps))
	require.Zero(d.t, r.code, "%s", r)
	return questions, r.stdout
}

// toolScript is the command of a toolProgram.
func (d *daemon) toolScript(steps string) string {
	b, err := json.Marshal(steps)
	require.NoError(d.t, err)
	return ident + "cat > ~/tools.py <<'EOT'\n" + toolProgram + "EOT\npython3 - <<'EOT'\nimport os, sys\nsys.argv = ['tools', " + string(b) + "]\nexec(open(os.path.expanduser('~/tools.py')).read())\nEOT\n"
}

// TestOneEditIsOneQuestion: a person approves the edit of a program, as Claude Code makes one, and gets no question about its
// system calls, up to the commit and the merge. The record says which answer it was.
func TestOneEditIsOneQuestion(t *testing.T) {
	d := askBed(t)
	questions, printed := d.tools("alice", `
		before("Edit", os.path.abspath("deploy/prod.txt"))
		text = open("deploy/prod.txt").read()
		edit("deploy/prod.txt", text + "changed\n")
		sh("git commit -qam approved")
		print(text)`)
	require.Equal(t, []string{"tool deploy/prod.txt"}, questions)
	require.Contains(t, printed, "allow\n"+secretText+"\n")
	d.must("merge", "alice")
	require.Equal(t, secretText+"\nchanged\n", git(t, d.bare(), "show", "main:deploy/prod.txt"))

	by := "by the answer of root to question alice."
	d.eventually("the receipts have it", func() bool {
		text := d.must("receipts", "show", "alice")
		return strings.Contains(text, "read deploy/prod.txt: "+by) && strings.Contains(text, "write deploy/prod.txt: "+by)
	})
	steps := d.must("tasks", "show", d.settled("alice").ID)
	require.Contains(t, steps, "approved read deploy/prod.txt: "+by)
	require.Contains(t, steps, "approved write deploy/prod.txt: "+by)
}

// TestTheAnswerToACallCoversThatCallOnly: everything else that an agent's program does opens a question, with the file of the
// call too.
func TestTheAnswerToACallCoversThatCallOnly(t *testing.T) {
	d := askBed(t)
	project := d.path("ws", "project")
	require.NoError(t, os.MkdirAll(project+"/plain", 0o755))
	require.NoError(t, os.Symlink("/", project+"/outside"))
	d.write("ws/project/plain/file", "other\n")
	cases := []struct {
		name, steps string
		want        []string // FILE is the file of the case
	}{
		{"another file", `before("Edit", "plain/file")
			edit("FILE", "x")`, []string{"tool plain/file", "write FILE"}},
		{"a file of the directory that was named", `before("Edit", "deploy")
			edit("FILE", "x")`, []string{"tool deploy", "write FILE"}},
		{"what reads does not write", `before("Read", "FILE")
			open("FILE").read()
			edit("FILE", "x")`, []string{"tool FILE", "write FILE"}},
		{"the call has ended", `before("Edit", "FILE")
			edit("FILE", "x")
			after("Edit", "FILE")
			open("FILE").read()`, []string{"tool FILE", "read FILE"}},
		{"a link to the file was named", `before("Edit", "LINK")
			open("LINK", "a").close()`, []string{"tool LINK", "write FILE"}},
		{"a path through a link that leads elsewhere", `before("Edit", "outside/../plain/file")
			open("FILE", "a").close()`, []string{"tool plain/file", "write FILE"}},
		{"a link takes the file's place", `before("Edit", "FILE")
			os.symlink("/etc/passwd", "fake")
			os.rename("fake", "FILE")`, []string{"tool FILE", "write FILE"}},
		{"the file gets a name without rules", `before("Edit", "FILE")
			os.link("FILE", "free.txt")`, []string{"tool FILE", "write FILE"}},
		{"the file is moved away", `before("Edit", "FILE")
			os.rename("FILE", "moved.txt")`, []string{"tool FILE", "write FILE"}},
		{"the file is removed", `before("Edit", "FILE")
			os.unlink("FILE")`, []string{"tool FILE", "write FILE"}},
		{"another file takes part", `before("Edit", "FILE")
			os.rename("deploy/other.txt", "FILE")`, []string{"tool FILE", `write deploy/other.txt\x00FILE`}},
		{"a process that is older than the answer", `p = subprocess.Popen("while ! test -e ~/go; do sleep 0.02; done; rm ~/go; cat FILE", shell=True)
			before("Edit", "FILE")
			open(os.path.expanduser("~/go"), "w").close()
			p.wait()`, []string{"tool FILE", "read FILE"}},
		{"a process that its parents have left", `before("Edit", "FILE")
			sh("(while ! test -e ~/go; do sleep 0.02; done; rm ~/go; cat FILE; touch ~/done)& true")
			open(os.path.expanduser("~/go"), "w").close()
			wait("done")
			os.unlink(os.path.expanduser("~/done"))`, []string{"tool FILE", "read FILE"}},
		{"a shell's command", `sh("polisctl ask -- cat FILE")
			sh("cat FILE")`, []string{"tool cat FILE", "read FILE"}},
	}
	file := func(i int) string { return fmt.Sprintf("deploy/case-%d.txt", i) }
	for i := range cases {
		d.write("ws/project/"+file(i), secretText+"\n")
		require.NoError(t, os.Symlink(file(i), fmt.Sprintf("%s/link-%d", project, i)))
	}
	git(t, project, "add", ".")
	git(t, project, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "files of the cases")
	d.worker("bob", "--role", "worker", "--auto-merge=false")
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			names := strings.NewReplacer("LINK", fmt.Sprintf("link-%d", i), "FILE", file(i))
			for j := range c.want {
				c.want[j] = names.Replace(c.want[j])
			}
			questions, printed := d.tools("bob", names.Replace(c.steps))
			require.Equal(t, c.want, questions, printed)
			require.NotContains(t, printed, "refused:")
		})
	}
}

// TestTheAnswerToACallIsWeakerThanEveryNo: a denial of the next call, a rule that denies, and a person's own command, which
// opens no question. What a task leaves running has nothing of the answers that the task got.
func TestTheAnswerToACallIsWeakerThanEveryNo(t *testing.T) {
	d := askBed(t)
	done := d.working("alice", d.toolScript(`
		before("Edit", "deploy/prod.txt")
		edit("deploy/prod.txt", "one")
		before("Edit", "deploy/prod.txt")
		edit("deploy/prod.txt", "two")
		before("Edit", "deploy/prod.txt")
		sh("touch ~/ready")
		wait("go")
		open("deploy/prod.txt", "w")
		before("Edit", "deploy/other.txt")
		subprocess.Popen("exec <&- >/dev/null 2>&1; touch ~/left; while ! test -e ~/over; do sleep 0.02; done; cat deploy/other.txt > ~/leaked", shell=True)
		wait("left")`))
	next := func(verb, want string) {
		t.Helper()
		q := d.question("alice")
		require.Equal(t, want, string(q.Kind)+" "+q.What)
		d.must("approvals", verb, q.ID)
		d.eventually("the question is closed", func() bool {
			for _, o := range d.questions() {
				if o.ID == q.ID {
					return false
				}
			}
			return true
		})
	}
	const edit = "tool deploy/prod.txt"
	next("approve", edit)
	next("deny", edit)
	next("deny", "write deploy/prod.txt")
	next("approve", edit)
	d.eventually("the call is approved", func() bool { _, err := os.Stat(d.home("alice", "ready")); return err == nil })

	r := d.exec("alice", "cat", "deploy/prod.txt")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "polis: deploy/prod.txt needs an approval")
	d.must("agents", "set", "alice", "--deny", "deploy/prod.txt")
	d.sh("alice", "touch ~/go")
	next("approve", "tool deploy/other.txt")
	r = <-done
	require.Contains(t, r.stdout, `refused: edit("deploy/prod.txt", "two")`)
	require.Contains(t, r.stdout, `refused: open("deploy/prod.txt", "w")`)
	require.NotContains(t, r.stdout, `refused: edit("deploy/prod.txt", "one")`)

	d.sh("alice", "touch ~/over")
	next("deny", "read deploy/other.txt")
	require.Empty(t, readFile(d.home("alice", "leaked")))
}
