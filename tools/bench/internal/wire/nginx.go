package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// Kinds of servers that are programs.
const (
	nginx     = "nginx"
	floorKind = "floor"
)

var (
	errNoNginx = errors.New("nginx is not installed (Debian: package nginx-light)")
	errNginx   = errors.New("nginx has no handlers")
)

// findNginx returns where nginx is: it is often not in an ordinary user's PATH.
func findNginx() (string, error) {
	for _, name := range []string{nginx, "/usr/sbin/nginx"} {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", errNoNginx
}

// startNginx starts nginx for a case, with a worker per process and everything
// that it writes in a folder of its own.
func startNginx(ctx context.Context, c *wireCase, o startOptions) (*contender, error) {
	if c.peer.Answer == peers.AnswerJSON || c.peer.Handler.Sleep > 0 {
		return nil, errNginx
	}
	program, err := findNginx()
	if err != nil {
		return nil, err
	}
	addr, err := process.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(o.folder, nginx)
	if err != nil {
		return nil, err
	}
	if err := writeSite(c, folder); err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(config, []byte(nginxConfig(c, addr, folder, o.procs, os.Geteuid() == 0)), 0o600); err != nil {
		return nil, err
	}
	server, err := process.StartProgram(ctx, o.cpu, program, "-e", "stderr", "-p", folder, "-c", config)
	if err != nil {
		return nil, err
	}
	return startedProgram(ctx, nginx, addr, server)
}

// writeSite writes what nginx serves.
func writeSite(c *wireCase, folder string) error {
	target := c.target
	if target == "" {
		target = peers.Target
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(target, "/"), "?")
	if err := os.WriteFile(filepath.Join(folder, name), c.body(), 0o600); err != nil {
		return err
	}
	if !c.peer.TLS {
		return nil
	}
	certificate, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	return errors.Join(err,
		os.WriteFile(filepath.Join(folder, "certificate.pem"), certificate, 0o600),
		os.WriteFile(filepath.Join(folder, "key.pem"), key, 0o600))
}

// nginxConfig returns a configuration. The root user's worker stays root's, so
// that it can enter the temporary folder.
func nginxConfig(c *wireCase, addr, folder string, workers int, asRoot bool) string {
	user, overTLS, location := "", "", "root "+folder+";"
	if asRoot {
		user = "user root root;\n"
	}
	if c.peer.Answer == peers.AnswerHello {
		location = fmt.Sprintf("return 200 %q;", peers.Body)
	}
	if c.peer.TLS {
		overTLS = " ssl;\n\t\tssl_protocols TLSv1.3;\n\t\tssl_certificate certificate.pem;\n\t\tssl_certificate_key key.pem"
	}
	compress := ""
	if c.peer.Answer == peers.AnswerGzip {
		compress = fmt.Sprintf("\tgzip on;\n\tgzip_types text/plain;\n\tgzip_comp_level %d;\n", peers.GzipLevel)
	}
	var temporary strings.Builder
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "\t%s_temp_path temporary;\n", name)
	}
	return user + `daemon off;
worker_processes ` + strconv.Itoa(workers) + `;
error_log stderr;
pid nginx.pid;
worker_rlimit_nofile 20000;
events {
	worker_connections 19000;
}
http {
	types { text/html html; }
	default_type text/plain;
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_timeout 3600s;
	keepalive_requests 1000000000;
` + compress + temporary.String() + `	server {
		listen ` + addr + overTLS + `;
		location / {
			` + location + `
		}
	}
}
`
}
