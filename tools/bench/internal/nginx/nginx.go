// Package nginx runs nginx beside the servers that it is compared with.
package nginx

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
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// ErrAbsent says that the machine has no nginx.
var ErrAbsent = errors.New("nginx is not installed (Debian: package nginx-light)")

// Find returns where a server is that may not be in an ordinary user's PATH, as nginx often
// is not.
func Find(name string) (string, error) {
	for _, name := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", ErrAbsent
}

// Options say what is served and how.
type Options struct {
	CPU       int // or process.AnyCPU
	Workers   int
	Text      string // what every request gets; "": it gets files of the folder
	To        string // address of a server to which requests are forwarded; "": none
	GzipLevel int    // 0: nothing is compressed
	TLS       bool   // TLS 1.3, with a certificate made for the occasion
	HTTP2     bool   // instead of HTTP/1.1, or beside it over TLS
	Cache     bool   // open_file_cache, without which each request opens the file
}

// Start starts nginx, which serves a folder and writes into it. It returns when a client can
// connect.
func Start(ctx context.Context, folder string, o Options) (server *process.Program, addr string, err error) {
	program, err := Find("nginx")
	if err != nil {
		return nil, "", err
	}
	if addr, err = process.FreeAddress(ctx); err != nil {
		return nil, "", err
	}
	if o.TLS {
		certificate, key, err := sluice.GenerateTestCertificate("127.0.0.1")
		err = errors.Join(err,
			os.WriteFile(filepath.Join(folder, "certificate.pem"), certificate, 0o600),
			os.WriteFile(filepath.Join(folder, "key.pem"), key, 0o600))
		if err != nil {
			return nil, "", err
		}
	}
	config := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(config, []byte(o.config(addr, folder, os.Geteuid() == 0)), 0o600); err != nil {
		return nil, "", err
	}
	server, err = process.StartServer(ctx, o.CPU, addr, program, "-e", "stderr", "-p", folder, "-c", config)
	return server, addr, err
}

// config returns a configuration. The root user's worker stays root's, so that it can enter
// a temporary folder.
func (o Options) config(addr, folder string, asRoot bool) string {
	user, settings, listen, location := "", "", addr, "root "+folder+";"
	if asRoot {
		user = "user root root;\n"
	}
	if o.Text != "" {
		location = fmt.Sprintf("return 200 %q;", o.Text)
	}
	if o.To != "" {
		settings, location = o.upstream(), forwarded+`proxy_set_header Connection "";`
	}
	if o.HTTP2 {
		listen += " http2"
	}
	if o.TLS {
		listen += " ssl;\n\t\tssl_protocols TLSv1.3;\n\t\tssl_certificate certificate.pem;\n\t\tssl_certificate_key key.pem"
	}
	if o.GzipLevel > 0 {
		settings += fmt.Sprintf("\tgzip on;\n\tgzip_types text/plain;\n\tgzip_comp_level %d;\n", o.GzipLevel)
	}
	if o.Cache {
		settings += "\topen_file_cache max=1000 inactive=60s;\n\topen_file_cache_valid 60s;\n\topen_file_cache_min_uses 1;\n"
	}
	var temporary strings.Builder
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "\t%s_temp_path temporary;\n", name)
	}
	return user + `daemon off;
worker_processes ` + strconv.Itoa(max(o.Workers, 1)) + `;
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
` + settings + temporary.String() + `	server {
		listen ` + listen + `;
		location / {
			` + location + `
		}
` + o.streams() + `	}
}
`
}

// forwarded has requests forwarded, while their bodies arrive, with what the server is to know of
// the client.
const forwarded = `proxy_pass http://upstream;
			proxy_http_version 1.1;
			proxy_request_buffering off;
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Forwarded-Host $host;
			proxy_set_header X-Forwarded-Proto $scheme;
			`

// upstream has connections to the server kept.
func (o Options) upstream() string {
	return "	client_max_body_size 0;\n	proxy_read_timeout 3600s;\n	upstream upstream {\n		server " + o.To +
		";\n		keepalive 8192;\n		keepalive_timeout 3600s;\n		keepalive_requests 1000000000;\n	}\n"
}

// streams are the locations of WebSockets and of events, which need settings of their own.
func (o Options) streams() string {
	if o.To == "" {
		return ""
	}
	return "		location /ws {\n			" + forwarded + "proxy_set_header Upgrade $http_upgrade;\n			proxy_set_header Connection upgrade;\n		}\n" +
		"		location /events {\n			" + forwarded + "proxy_set_header Connection \"\";\n			proxy_buffering off;\n		}\n"
}
