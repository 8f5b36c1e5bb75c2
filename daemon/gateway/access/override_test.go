package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNamesThatReplaceTheMethod(t *testing.T) {
	for _, name := range []string{
		"_method", "_METHOD", "%5fmethod", "%255Fmethod", ".method", "[method", " .method", "_method[]", "_method[x]", "[_method]", "[[_method", "_method]", "_method\x00x",
		"__method", "-method", "$method", "$httpMethod", "$.method", "_httpmethod", "\uff3fmethod", "_\uff4dethod", "\u00a0_method", "\xff_method", "_method\xff",
		"x-tunneled-method", "X-HTTP-Method-Override", "x_http_method", "X.Http.Method.Override", "method-override", "httpMethodOverride",
	} {
		require.True(t, Replaces(name), "%q", name)
	}
	for _, name := range []string{"", "x", "method", "methods", "_methods", "payment_method", "user[_method]", "filter[method]", "method_id", "methode", "httpMethod", "x_method_y", "[]", "%"} {
		require.False(t, Replaces(name), "%q", name)
	}
	for _, c := range []struct {
		name, value, method string
		ok                  bool
	}{
		{"_method", "x", "", true},
		{"_method", " delete ", "DELETE", true},
		{"method", "delete", "DELETE", true},
		{"method", "card", "", false},
		{"httpMethod", "Put", "PUT", true},
		{"method[]", "MERGE", "MERGE", true},
		{"payment_method", "delete", "", false},
		{"method", strings.Repeat("-", 100) + "PUT", "", false},
	} {
		m, ok := Replacement(c.name, c.value)
		require.Equal(t, [2]any{c.method, c.ok}, [2]any{m, ok}, "%q=%q", c.name, c.value)
	}
}

// What servers make of a name: php_register_variable_ex of PHP, Rack::QueryParser, qs of Express.
var (
	rackName = regexp.MustCompile(`\A[\[\]]*([^\[\]]+)\]*`)
	readings = map[string]func(string) string{
		"as it is": func(s string) string { return s },
		"php": func(s string) string {
			s, _, _ = strings.Cut(strings.TrimLeft(s, " "), "\x00")
			if at := strings.IndexByte(s, '['); at > 0 && strings.Contains(s[at:], "]") {
				s = s[:at]
			}
			return strings.NewReplacer(" ", "_", ".", "_", "[", "_").Replace(s)
		},
		"rack": func(s string) string {
			if m := rackName.FindStringSubmatch(s); m != nil {
				return m[1]
			}
			return s
		},
		"qs": func(s string) string {
			if at := strings.IndexByte(s, '['); at > 0 {
				return s[:at]
			}
			return strings.Trim(s, "[]")
		},
	}
	nameParts = []string{"_", ".", "[", "]", " ", "+", "%5f", "%5B", "%00", "%25", "\x00", "method", "_method", "Method", "meth", "od", "x", "-", "http", "\uff3f", "%ff"}
)

// Feature: multi-agent-workspaces, Property: a name that a framework reads as the method is one for the gateway
func TestNoFrameworkReadsANameOtherwise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkReadings(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(nameParts), 1, 8).Draw(t, "parts"), ""))
	})
}

func checkReadings(t tester, raw string) {
	t.Helper()
	name, err := url.QueryUnescape(raw)
	if err != nil {
		return
	}
	for reading, read := range readings {
		for range 2 { // of the second, a proxy has decoded it before
			if strings.EqualFold(read(name), "_method") {
				require.True(t, Replaces(name), "%s: %q", reading, name)
			}
			if _, ok := check("application/x-www-form-urlencoded", raw+"=PUT"); strings.EqualFold(read(name), "_method") {
				require.False(t, ok, "%s in a form: %q", reading, raw)
			}
			if again, err := url.QueryUnescape(name); err == nil {
				name = again
			}
		}
		name, _ = url.QueryUnescape(raw)
	}
}

// check reads a body whose fields may replace the method by DELETE only.
func check(kind, body string) (string, bool) {
	in, err := CheckFields(iotest.HalfReader(strings.NewReader(body)), []string{kind}, nil, func(m string) bool { return m == "DELETE" })
	if err != nil {
		return "", false
	}
	b, err := io.ReadAll(in)
	return string(b), err == nil
}

// Feature: multi-agent-workspaces, Property: a form that passes has no field that replaces the method
func TestAFormThatPassesKeepsTheMethod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := append(slices.Clone(nameParts), "=", "&", ";", "PUT", "DELETE", "delete", "%50UT", strings.Repeat("[", maxField), "&method=", "{", "\"")
		checkForm(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 12).Draw(t, "parts"), ""))
	})
}

func checkForm(t tester, body string) {
	t.Helper()
	got, ok := check("application/x-www-form-urlencoded", body)
	if !ok {
		return
	}
	require.Equal(t, body, got)
	for _, field := range strings.FieldsFunc(body, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(field, "=")
		name, nerr := url.QueryUnescape(name)
		value, verr := url.QueryUnescape(value)
		if len(strings.TrimLeft(name, "[_.-=+ ")) > maxField {
			continue // no framework drops so much within a name
		}
		if m, replaces := Replacement(name, value); nerr == nil && verr == nil && replaces {
			require.Equal(t, "DELETE", m, "%q", field)
		}
	}
}

// Feature: multi-agent-workspaces, Property: parts that Go's reader finds are found
func TestPartsThatPassKeepTheMethod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{"--b\r\n", "--b", "--b--", "\r\n", "\n", "\r", " ", "Content-Disposition: form-data; ", "name=", "name*=", "\"", "'", "\\", ";", "_method", "text", "PUT", "DELETE",
			"filename=", "\r\n\r\n", "Content-Disposition: form-data; name=\"_method\"\r\n\r\n", "\r\n--b\r\n"}
		checkParts(t, "--b\r\nContent-Disposition: form-data; "+strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 16).Draw(t, "parts"), ""))
	})
}

func checkParts(t tester, body string) {
	t.Helper()
	got, ok := check("multipart/form-data; boundary=b", body)
	if !ok {
		return
	}
	require.Equal(t, body, got)
	in := multipart.NewReader(strings.NewReader(body), "b")
	for {
		p, err := in.NextRawPart()
		if err != nil {
			return
		}
		_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
		value, verr := io.ReadAll(p)
		if err != nil && params == nil || verr != nil || !Replaces(params["name"]) {
			continue
		}
		require.Contains(t, []string{"DELETE", ""}, valueOf(string(value)), "%q", body)
	}
}

func TestFormsOfClientsPass(t *testing.T) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(t, w.WriteField("content", "a\r\nb\n--\n_method=PUT"))
	f, err := w.CreateFormFile("file", "_method.html")
	require.NoError(t, err)
	_, err = fmt.Fprint(f, `<input type="hidden" name="_method" value="put">`, strings.Repeat("\r\n--x\n", 10000))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	got, ok := check(w.FormDataContentType(), b.String())
	require.True(t, ok)
	require.Equal(t, b.String(), got)
	for _, c := range [][2]string{
		{"application/octet-stream", "_method=PUT"}, {"application/x-git-upload-pack-request", "_method=PUT"}, {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "_method=PUT"},
		{"application/json", `{"jsonrpc":"2.0","method":"put","params":[{"_method":"PUT"}]}`}, {"application/json", `[{"_method":"PUT"}]`}, {"application/json", `"_method"`},
		{"application/x-www-form-urlencoded", `{"text":"` + strings.Repeat("hello ", 2000) + `"}`},
	} {
		got, ok := check(c[0], c[1])
		require.True(t, ok, c)
		require.Equal(t, c[1], got)
	}
}

func FuzzFields(f *testing.F) {
	f.Add("_method=PUT")
	f.Add("--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nPUT\r\n--b--")
	f.Add(`{"_method":"PUT"}`)
	f.Fuzz(func(t *testing.T, text string) {
		checkReadings(t, text)
		checkForm(t, text)
		checkParts(t, text)
		if _, ok := check("application/json", text); ok {
			checkMembers(t, text)
		}
	})
}

func TestErrorsOfFieldsStay(t *testing.T) {
	in, err := CheckFields(strings.NewReader("a=b&_method=PUT&c=d"), []string{"application/x-www-form-urlencoded"}, nil, func(string) bool { return false })
	require.NoError(t, err)
	for range 3 {
		n, err := in.Read(make([]byte, 100))
		require.Zero(t, n)
		require.True(t, errors.Is(err, ErrField))
	}
}
