package h3

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// startProgram starts nginx or Caddy. errAbsent: there is none with HTTP/3, or it cannot do the
// case.
func startProgram(ctx context.Context, kind, program string, load loadCase, folder string) (*contender, error) {
	peer := load.peer
	program, err := nginx.Find(program)
	if err != nil || kind == nginxKind && !hasHTTP3(ctx, program) {
		return nil, errAbsent
	}
	if peer.BodySize > 0 && kind == nginxKind {
		return nil, errAbsent // its files are for GET; see docs/benchmarks/h3.md
	}
	folder = filepath.Join(folder, kind)
	body := []byte(peers.Body)
	if peer.Answer == peers.AnswerLarge {
		body = peers.Large()
	}
	certificate, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	err = errors.Join(err, os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, "articles"), body, 0o644),
		os.WriteFile(filepath.Join(folder, "certificate.pem"), certificate, 0o600),
		os.WriteFile(filepath.Join(folder, "key.pem"), key, 0o600))
	if err != nil {
		return nil, err
	}
	addr, err := process.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	text, arguments := nginxConfig(addr, folder), []string{"-e", "stderr", "-p", folder, "-c", filepath.Join(folder, "config")}
	if kind == caddyKind {
		text, arguments = caddyConfig(addr, folder, peer.Answer), []string{"run", "--adapter", "caddyfile", "--config", filepath.Join(folder, "config")}
	}
	if err := os.WriteFile(filepath.Join(folder, "config"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	server, err := process.StartServer(ctx, load.cpu(serverCPU), addr, program, arguments...)
	if err != nil {
		return nil, err
	}
	return &contender{addr: addr, cpu: server.CPU, stop: server.Stop}, nil
}

// hasHTTP3 reports whether a program of nginx was built with its module.
func hasHTTP3(ctx context.Context, program string) bool {
	out, err := exec.CommandContext(ctx, program, "-V").CombinedOutput()
	return err == nil && strings.Contains(string(out), "http_v3_module")
}

// nginxConfig is that of one worker, which stays root's so that it can enter a temporary folder. It
// needs no module but those of TLS and HTTP/3.
func nginxConfig(addr, folder string) string {
	user, temporary := "", ""
	if os.Geteuid() == 0 {
		user = "user root root;\n"
	}
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("\t%s_temp_path temporary;\n", name)
	}
	return user + `daemon off;
worker_processes 1;
error_log stderr;
pid nginx.pid;
events {
	worker_connections 19000;
}
http {
	default_type text/plain;
	access_log off;
	keepalive_timeout 3600s;
	keepalive_requests 1000000000;
	open_file_cache max=1000 inactive=60s;
	open_file_cache_valid 60s;
	quic_gso on;
` + temporary + `	server {
		listen ` + addr + ` ssl;
		listen ` + addr + ` quic;
		ssl_protocols TLSv1.3;
		ssl_certificate certificate.pem;
		ssl_certificate_key key.pem;
		location / {
			root ` + folder + `;
		}
	}
}
`
}

// caddyConfig is a Caddyfile.
func caddyConfig(addr, folder string, answer peers.Answer) string {
	respond := fmt.Sprintf("\theader Content-Type text/plain\n\trespond %q 200", peers.Body)
	if answer == peers.AnswerLarge {
		respond = "\troot * " + folder + "\n\tfile_server"
	}
	return fmt.Sprintf(`{
	admin off
	auto_https off
	log {
		output discard
	}
	storage file_system %s
	default_sni 127.0.0.1
}
https://%s {
	tls %s/certificate.pem %s/key.pem
%s
}
`, folder, addr, folder, folder, respond)
}
