package approval

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"polis/daemon/api"
)

// Bounds of a diff.
const (
	maxDiffInput = 256 << 10 // bytes of each of two texts
	maxDiffLines = 400
	maxDiffLine  = 500 // bytes
)

// MaxDiffFile is the largest file that a diff is made for, in bytes.
const MaxDiffFile = maxDiffInput

// editInput has what the known tools call their arguments.
type editInput struct {
	OldString *string     `json:"old_string"`
	NewString *string     `json:"new_string"`
	OldStr    *string     `json:"old_str"`
	NewStr    *string     `json:"new_str"`
	OldCamel  *string     `json:"oldString"`
	NewCamel  *string     `json:"newString"`
	Edits     []editInput `json:"edits"`

	Content  *string `json:"content"`
	FileText *string `json:"file_text"`
	Contents *string `json:"contents"`

	Patch     *string `json:"patch"`
	PatchText *string `json:"patchText"`
	Input     *string `json:"input"`
}

func firstOf(all ...*string) *string {
	for _, s := range all {
		if s != nil {
			return s
		}
	}
	return nil
}

// Diff is what the call of an editing tool would change, as lines of a unified diff, each escaped;
// hidden is how many lines are left out at the end. file returns a file of the repository as it is
// now, which a whole new content is compared with. Without a known change there are no lines.
func Diff(q Question, file func(path string) (text string, ok bool)) (lines []string, hidden int) {
	var in editInput
	if q.Class != api.ToolEdit || json.Unmarshal([]byte(q.Detail), &in) != nil {
		return nil, 0
	}
	path := "?"
	if len(q.Paths) > 0 {
		path = q.Paths[0]
	}
	d := diff{path: path}
	content := firstOf(in.Content, in.FileText, in.Contents)
	patch := firstOf(in.Patch, in.PatchText, in.Input)
	switch {
	case in.edit(&d):
	case len(in.Edits) > 0:
		for _, e := range in.Edits {
			if !e.edit(&d) {
				return nil, 0
			}
		}
	case content != nil:
		was, ok := file(path)
		if !ok {
			was = ""
			d.add("a file that cannot be compared (new, no regular file, or too large) gets this content:")
		}
		d.compare(was, *content)
	case patch != nil:
		d.add(strings.Split(strings.TrimSuffix(*patch, "\n"), "\n")...)
	}
	return d.lines, d.hidden
}

// edit adds the replacement of one text by another; false: there is none.
func (in editInput) edit(d *diff) bool {
	was, now := firstOf(in.OldString, in.OldStr, in.OldCamel), firstOf(in.NewString, in.NewStr, in.NewCamel)
	if was == nil || now == nil {
		return false
	}
	if end := "\n"; max(len(*was), len(*now)) < maxDiffInput && !strings.HasSuffix(*was, end) && !strings.HasSuffix(*now, end) {
		d.compare(*was+end, *now+end) // parts of a line: that they have no end says nothing of the file
		return true
	}
	d.compare(*was, *now)
	return true
}

// diff collects lines.
type diff struct {
	path   string
	lines  []string
	hidden int
}

func (d *diff) add(lines ...string) {
	for _, line := range lines {
		if len(d.lines) >= maxDiffLines {
			d.hidden++
			continue
		}
		text, more := Bounded(line, maxDiffLine)
		if more > 0 {
			text += fmt.Sprintf(" [%s more]", api.Count(more, "byte"))
		}
		d.lines = append(d.lines, text)
	}
}

func (d *diff) compare(was, now string) {
	if len(was) > maxDiffInput || len(now) > maxDiffInput {
		d.add(fmt.Sprintf("%d bytes become %d bytes: more than is compared", len(was), len(now)))
		return
	}
	text := strings.TrimSuffix(udiff.Unified("", "", was, now), "\n")
	if text == "" {
		d.add("nothing changes: both texts are equal")
		return
	}
	lines := strings.Split(text, "\n")
	lines[0], lines[1] = "--- a/"+d.path, "+++ b/"+d.path // which may have line breaks
	d.add(lines...)
}
