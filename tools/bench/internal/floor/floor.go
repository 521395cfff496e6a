// Package floor builds a server in C that does not parse: what a request costs
// without HTTP, and so the least that any server with epoll can reach.
package floor

import (
	"context"
	_ "embed"
	"net"
	"strconv"

	"github.com/sluicehttp/sluice/tools/lab/process"
)

//go:embed source/floor.c
var source []byte

// Build compiles the program into a folder and returns its name. Without a compiler the
// error is process.ErrNoCompiler.
func Build(ctx context.Context, folder string) (string, error) {
	return process.Compile(ctx, folder, "floor", source)
}

// Options say how the program serves.
type Options struct {
	Addr      string // 127.0.0.1 and a port
	Processes int
	Close     bool   // connections, after a response
	Response  string // the file that has the response, with its head
}

// Arguments returns the program's arguments.
func Arguments(o Options) ([]string, error) {
	_, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, err
	}
	closes := "0"
	if o.Close {
		closes = "1"
	}
	return []string{port, strconv.Itoa(o.Processes), closes, o.Response}, nil
}
