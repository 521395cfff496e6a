package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// startProgram starts a server that is a program, with files of the size of the
// handler's answers.
func startProgram(ctx context.Context, kind string, c loadCase, folder string) (*contender, error) {
	program, err := nginx.Find(kind)
	if err != nil {
		return nil, errAbsent
	}
	folder = filepath.Join(folder, kind)
	if err := writeSite(folder, c); err != nil {
		return nil, err
	}
	if kind == nginxKind {
		options := nginx.Options{CPU: serverCPU, TLS: c.peer.TLS, HTTP2: true}
		if c.peer.Answer == peers.AnswerHello && !c.peer.Handler.Mixed {
			options.Text = peers.Body
		}
		server, addr, err := nginx.Start(ctx, filepath.Join(folder, "site"), options)
		if err != nil {
			return nil, err
		}
		return &contender{kind: kind, addr: addr, cpu: server.CPU, stop: server.Stop}, nil
	}
	addr, err := process.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	arguments, err := programArguments(kind, addr, folder, c)
	if err != nil {
		return nil, err
	}
	server, err := process.StartServer(ctx, serverCPU, addr, program, arguments...)
	if err != nil {
		return nil, err
	}
	return &contender{kind: kind, addr: addr, cpu: server.CPU, stop: server.Stop}, nil
}

// isProgram reports whether startProgram starts the server.
func isProgram(kind string) bool { return kind == nginxKind || kind == h2o || kind == nghttpd }

// writeSite writes what a program serves, and a certificate.
func writeSite(folder string, c loadCase) error {
	if err := os.MkdirAll(filepath.Join(folder, "site"), 0o755); err != nil {
		return err
	}
	body := []byte(peers.Body)
	switch c.peer.Answer {
	case peers.AnswerLarge:
		body = bytes.Repeat([]byte("x"), peers.LargeSize)
	case peers.AnswerJSON:
		body = peers.JSONBody()
	}
	huge := filepath.Join(folder, "site", "huge")
	certificate, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	return errors.Join(err,
		os.WriteFile(filepath.Join(folder, "site", "articles"), body, 0o644),
		os.WriteFile(filepath.Join(folder, "site", "large"), peers.Large(), 0o644),
		os.WriteFile(huge, nil, 0o644),
		os.Truncate(huge, peers.HugeSize),
		os.WriteFile(filepath.Join(folder, "certificate.pem"), certificate, 0o600),
		os.WriteFile(filepath.Join(folder, "key.pem"), key, 0o600))
}

// programArguments returns the arguments of a program, after writing its configuration.
func programArguments(kind, addr, folder string, c loadCase) ([]string, error) {
	certificate, key := filepath.Join(folder, "certificate.pem"), filepath.Join(folder, "key.pem")
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if kind == nghttpd {
		args := []string{"-n1", "-a", host, "-d", filepath.Join(folder, "site"), "--echo-upload"}
		if c.peer.BodySize == 0 {
			args = args[:len(args)-1]
		}
		if !c.peer.TLS {
			return append(args, "--no-tls", port), nil
		}
		return append(args, port, key, certificate), nil
	}
	if c.peer.BodySize > 0 {
		return nil, errAbsent // h2o answers 405
	}
	overTLS, config := "", filepath.Join(folder, "config")
	if c.peer.TLS {
		overTLS = fmt.Sprintf("\n  ssl:\n    certificate-file: %s\n    key-file: %s", certificate, key)
	}
	text := fmt.Sprintf("num-threads: 1\nuser: root\nlisten:\n  host: %s\n  port: %s%s\nhosts:\n  default:\n    paths:\n      \"/\":\n        file.dir: %s\n", host, port, overTLS, filepath.Join(folder, "site"))
	return []string{"-m", "worker", "-c", config}, os.WriteFile(config, []byte(text), 0o600)
}
