//go:build !(linux && (amd64 || arm64 || riscv64 || loong64))

package perconn

import (
	"errors"
	"net"

	"github.com/sluicehttp/sluice/internal/engine"
)

// There is no raw path here: every connection goes the plain one.

type (
	rawConn   struct{}
	receiver  struct{}
	watch     struct{}
	readiness struct{}
)

// errNoRawPath is never seen: nothing enters a path that is not enabled.
var errNoRawPath = errors.New("sluice: no raw path on this system")

func (*rawConn) enabled() bool                            { return false }
func (*rawConn) entered() bool                            { return false }
func (*rawConn) enter(uintptr)                            {}
func (*rawConn) exit()                                    {}
func (*rawConn) read(func(uintptr) bool) error            { return errNoRawPath }
func (*rawConn) take(net.Conn, *serving)                  {}
func (*rawConn) forget(*driver)                           {}
func (*readiness) close()                                 {}
func (*watch) wake()                                      {}
func (*serving) prepareRaw()                              {}
func (*worker) inputRaw(*coroutine) bool                  { return true }
func (*worker) leftRaw(*coroutine) bool                   { return false }
func (*conn) refuseRaw([]byte)                            {}
func (*conn) watchable() *watch                           { return nil }
func (*conn) watchPeerRaw(*engine.Notice)                 {}
func (*conn) readRaw([]byte) (int, error)                 { return 0, errNoRawPath }
func (*conn) writeRaw([]byte) (int, error)                { return 0, errNoRawPath }
func (*conn) sendFileRaw() error                          { return errNoRawPath }
func shutdownRaw(net.Conn)                                {}
func (*conn) writeBuffersRaw(*net.Buffers) (int64, error) { return 0, errNoRawPath }
