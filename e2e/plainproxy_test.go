package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// plainProxyEnv makes the test binary a reverse proxy of package httputil for the URL that it has: what the model gateway is
// compared with.
const plainProxyEnv = "POLIS_PLAIN_PROXY"

func plainProxy(to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, FlushInterval: -1}
	return (&http.Server{Handler: p, ReadHeaderTimeout: time.Minute}).Serve(l)
}

// startPlainProxy starts a proxy. stop ends it, and returns the processor time that it used.
func startPlainProxy(b *testing.B, to string) (addr string, stop func() time.Duration) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), plainProxyEnv+"="+to), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line), func() time.Duration {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
}
