package files_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// secret is in files that lie outside of the root.
const secret = "TOPSECRET"

// fileTree makes a folder with a root "www" and secrets around it.
func fileTree(t *testing.T) (root string) {
	t.Helper()
	top := t.TempDir()
	for name, content := range map[string]string{
		"secret.txt":          secret,
		"www-other/s.txt":     secret,
		"www/file.txt":        "public",
		"www/sub/index.html":  "public",
		"www/sub/deep/a.txt":  "public",
		"www/..hidden/a.txt":  "public",
		"www/dots.../a.txt":   "public",
		"www/%2e%2e/file.txt": "public",
	} {
		name = filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root = filepath.Join(top, "www")
	for link, target := range map[string]string{
		"absolute.txt":  filepath.Join(top, "secret.txt"),
		"relative.txt":  "../secret.txt",
		"sub/up.txt":    "../../secret.txt",
		"top":           top,
		"parent":        "..",
		"sub/chain":     "../parent",
		"sub/chain.txt": "chain/secret.txt",
		"rooted":        "/",
		"inside.txt":    "sub/deep/a.txt",
	} {
		if err := os.Symlink(target, filepath.Join(root, filepath.FromSlash(link))); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	return root
}

// traversals are request targets that would lead to a secret if something went
// wrong.
func traversals(root string) []string {
	top := filepath.ToSlash(filepath.Dir(root))
	dots := []string{
		"..", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "%252e%252e", "%25252e%25252e", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae",
		"%uff0e%uff0e", "..%00", "%00..", "..%20", "..;", "....", "...", "..%c0%af..", "%%32%65%%32%65", "..%5c..",
	}
	slashes := []string{"/", "//", "%2f", "%2F", "%252f", "%5c", "%255c", "%c0%af", "%ef%bc%8f", "/./", "/%2e/", "%2f%2f"}
	var targets []string
	for _, dot := range dots {
		for _, slash := range slashes {
			targets = append(targets,
				"/"+dot+slash+"secret.txt",
				"/sub"+slash+dot+slash+dot+slash+"secret.txt",
				"/"+dot+slash+"www-other"+slash+"s.txt",
			)
		}
	}
	for _, name := range []string{
		"absolute.txt", "relative.txt", "sub/up.txt", "top/secret.txt", "parent/secret.txt", "sub/chain/secret.txt",
		"sub/chain.txt", "rooted" + top + "/secret.txt", "rooted/etc/passwd", "top/www-other/s.txt", "parent/www-other/s.txt",
	} {
		targets = append(targets, "/"+name, "/"+strings.ReplaceAll(name, "/", "%2f"), "/sub/../"+name, "/"+name+"/", "/./"+name)
	}
	for _, absolute := range []string{top + "/secret.txt", "/etc/passwd", "/proc/self/environ", "/proc/self/root" + top + "/secret.txt"} {
		targets = append(targets, absolute, "/"+absolute, "//"+absolute, "/%2f"+absolute[1:], "/file:"+absolute,
			"/"+strings.ReplaceAll(absolute, "/", "%5c"), "/C:"+absolute, "/%00"+absolute, absolute+"%00.txt", "http://x"+absolute)
	}
	return targets
}

// TestFSReadsNothingOutside sends targets that try to leave the root.
func TestFSReadsNothingOutside(t *testing.T) {
	root := fileTree(t)
	targets := traversals(root)
	if len(targets) < 300 {
		t.Fatalf("only %d targets", len(targets))
	}
	fs := &sluice.FS{
		Root: root, IndexNames: []string{"index.html"}, GenerateIndexPages: true, AcceptByteRange: true, Compress: true,
	}
	raw := &sluice.FS{Root: root, GenerateIndexPages: true, PathRewrite: func(ctx *sluice.RequestCtx) []byte { return ctx.URI().PathOriginal() }}
	vhost := &sluice.FS{Root: root, GenerateIndexPages: true, PathRewrite: sluice.NewVHostPathRewriter(0)}
	opened, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	library := &sluice.FS{FS: opened.FS(), GenerateIndexPages: true}
	for name, handler := range map[string]sluice.RequestHandler{
		"plain": fs.NewRequestHandler(), "rewritten": raw.NewRequestHandler(), "vhost": vhost.NewRequestHandler(),
		"stripped": sluice.FSHandler(root, 1), "fs.FS": library.NewRequestHandler(),
	} {
		t.Run(name, func(t *testing.T) {
			served := 0
			hosts := []string{"x", "..", "parent"}
			if testing.Short() && name != "vhost" { // only that one looks at the host
				hosts = hosts[:1]
			}
			for _, target := range targets {
				for _, host := range hosts {
					answer := serveOnce(handler, "GET "+target+" HTTP/1.1\r\nHost: "+host+"\r\nAccept-Encoding: identity\r\n\r\n")
					if strings.Contains(answer, secret) || strings.Contains(answer, "root:") {
						t.Errorf("%s from %q:\n%.300s", target, host, answer)
					}
					if strings.HasPrefix(answer, "HTTP/1.1 200") {
						served++
					}
				}
			}
			t.Logf("%d targets, %d answered with 200", len(hosts)*len(targets), served)
		})
	}
}

// serveOnce returns what a server with the handler answers to request, until it
// closes the connection.
func serveOnce(handler sluice.RequestHandler, request string) string {
	client, server := net.Pipe()
	s := &sluice.Server{Handler: handler, Logger: &harness.LogBook{}}
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(server) }()
	go func() {
		_, _ = io.WriteString(client, strings.Replace(request, "\r\n", "\r\nConnection: close\r\n", 1))
	}()
	answer, _ := io.ReadAll(client) // how it ends is the server's business
	_ = client.Close()
	<-served
	return string(answer)
}

// TestFSReadsWhatIsInside is the other half: a handler that served nothing would
// read nothing outside.
func TestFSReadsWhatIsInside(t *testing.T) {
	handler := sluice.FSHandler(fileTree(t), 0)
	for _, target := range []string{
		"/file.txt", "/%2e%2e/file.txt", "/../file.txt", "/sub/../file.txt", "/sub/%2e%2e/file.txt", "//file.txt",
		"/%252e%252e/file.txt", "/inside.txt", "/sub/", "/sub/deep/a.txt", "/sub%2fdeep%2fa.txt", "/..hidden/a.txt",
		"/dots.../a.txt", "http://x/file.txt",
	} {
		if answer := serveOnce(handler, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasSuffix(answer, "public") {
			t.Errorf("%s:\n%s", target, answer)
		}
	}
}
