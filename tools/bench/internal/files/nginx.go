package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluicehttp/sluice/tools/lab/process"
)

// Kinds of nginx.
const (
	nginx      = "nginx"       // opens the file for every request
	nginxCache = "nginx-cache" // with open_file_cache
)

// findNginx returns where nginx is: it is often not in an ordinary user's PATH.
func findNginx() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", errors.New("nginx is not installed (Debian: package nginx-light)")
}

// startNginx starts nginx for folder/root, with one worker and everything else
// that it writes in a folder of its own.
func startNginx(ctx context.Context, kind, folder string) (*contender, error) {
	program, err := findNginx()
	if err != nil {
		return nil, err
	}
	addr, err := process.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	own := filepath.Join(folder, kind)
	if err := os.Mkdir(own, 0o755); err != nil {
		return nil, err
	}
	config := filepath.Join(own, "nginx.conf")
	if err := os.WriteFile(config, []byte(nginxConfig(kind, addr, folder, os.Geteuid() == 0)), 0o600); err != nil {
		return nil, err
	}
	server, err := process.StartProgram(ctx, serverCPU, program, "-e", "stderr", "-p", own, "-c", config)
	if err != nil {
		return nil, err
	}
	if err := process.AwaitServer(ctx, addr); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return &contender{kind: kind, addr: addr, cpu: server.CPU, stop: server.Stop}, nil
}

// nginxConfig returns a configuration. The root user's worker stays root's, so
// that it can enter the temporary folder.
func nginxConfig(kind, addr, folder string, asRoot bool) string {
	user, cache := "", ""
	if asRoot {
		user = "user root root;\n"
	}
	if kind == nginxCache {
		cache = "\topen_file_cache max=1000 inactive=60s;\n\topen_file_cache_valid 60s;\n\topen_file_cache_min_uses 1;\n"
	}
	var temporary strings.Builder
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "\t%s_temp_path temporary;\n", name)
	}
	return user + `daemon off;
worker_processes 1;
error_log stderr;
pid nginx.pid;
events {
	worker_connections 4096;
}
http {
	types { text/html html; }
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_timeout 600s;
	keepalive_requests 1000000000;
` + cache + temporary.String() + `	server {
		listen ` + addr + `;
		root ` + filepath.Join(folder, "root") + `;
	}
}
`
}
