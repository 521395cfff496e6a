package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A contender is a server that is compared.
type contender struct {
	kind, addr string
	cpu        func() (time.Duration, error)
	stop       func() error
}

// startAll starts the servers for the files in folder/root. What it returns is
// to be stopped even if it failed.
func startAll(ctx context.Context, kinds []string, folder string) (contenders []*contender, err error) {
	for _, kind := range kinds {
		c, err := start(ctx, kind, folder)
		if err != nil {
			return contenders, fmt.Errorf("%s: %w", kind, err)
		}
		contenders = append(contenders, c)
	}
	return contenders, nil
}

func start(ctx context.Context, kind, folder string) (*contender, error) {
	if kind == nginx || kind == nginxCache {
		return startNginx(ctx, kind, folder)
	}
	server, err := servers.Start(ctx, servers.Options{
		Options: process.Options{CPU: serverCPU}, Kind: kind,
		Peer: peers.Options{Answer: peers.AnswerFile, Root: filepath.Join(folder, "root")},
	})
	if err != nil {
		return nil, err
	}
	return &contender{kind: kind, addr: server.Addr, cpu: server.TreeCPU, stop: server.Stop}, nil
}

func stopAll(contenders []*contender) error {
	var errs []error
	for _, c := range contenders {
		errs = append(errs, c.stop())
	}
	return errors.Join(errs...)
}

// check says how a server's answers differ from what they have to be: what is
// measured must be the same everywhere.
func (m *measurement) check(ctx context.Context, c *contender) error {
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	for _, f := range m.files {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addr+f.target, nil)
		if err != nil {
			return err
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if err := checkAnswer(response, body, f); err != nil {
			return fmt.Errorf("%s: %w", f.target, err)
		}
		m.fields[c.kind] = fieldNames(response.Header)
	}
	return nil
}

func checkAnswer(response *http.Response, body []byte, f file) error {
	header := response.Header
	switch {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("status %s", response.Status)
	case !bytes.Equal(body, f.content):
		return fmt.Errorf("another body, of %d bytes", len(body))
	case header.Get("Content-Length") != strconv.Itoa(len(body)), header.Get("Content-Encoding") != "", response.Close:
		return fmt.Errorf("header %v, want the body's length, no encoding, and the connection kept", header)
	case !strings.HasPrefix(header.Get("Content-Type"), "text/html"), header.Get("Last-Modified") == "", header.Get("Accept-Ranges") != "bytes":
		return fmt.Errorf("header %v, want the type text/html, a date, and ranges", header)
	}
	return nil
}

func fieldNames(header http.Header) string {
	var names []string
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
