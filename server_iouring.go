package sluice

import (
	"fmt"
	"runtime"

	"github.com/sluicehttp/sluice/internal/engine/uring"
)

// An IOUring says whether EngineEpoll sends by io_uring, see Server.IOUring.
type IOUring uint8

const (
	// IOUringAuto is IOUringOn where that was measured to gain: with GOMAXPROCS=1,
	// as in the workers of package prefork.
	IOUringAuto IOUring = iota
	// IOUringOn sends by io_uring where the kernel allows it. Otherwise the server
	// serves without it, and EngineInfo.IOUringObstacle says why.
	IOUringOn
	// IOUringOff makes no use of io_uring.
	IOUringOff
)

// ioURingNames are the names of the values, indexed by IOUring.
var ioURingNames = [...]string{IOUringAuto: "auto", IOUringOn: "on", IOUringOff: "off"}

// String returns the name that ParseIOUring accepts: "auto", "on" or "off".
func (u IOUring) String() string {
	if int(u) < len(ioURingNames) {
		return ioURingNames[u]
	}
	return fmt.Sprintf("IOUring(%d)", uint8(u))
}

// ParseIOUring returns the value with the given name: "auto", "on" or "off". Any other
// name is an error.
func ParseIOUring(name string) (IOUring, error) {
	for u, known := range ioURingNames {
		if name == known {
			return IOUring(u), nil
		}
	}
	return IOUringAuto, fmt.Errorf("sluice: there is no setting %q of io_uring: it must be auto, on or off", name)
}

// MarshalText implements encoding.TextMarshaler.
func (u IOUring) MarshalText() ([]byte, error) {
	if int(u) >= len(ioURingNames) {
		return nil, fmt.Errorf("sluice: there is no setting of io_uring with the number %d", uint8(u))
	}
	return []byte(ioURingNames[u]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. It accepts what ParseIOUring
// accepts.
func (u *IOUring) UnmarshalText(text []byte) (err error) {
	*u, err = ParseIOUring(string(text))
	return err
}

// wantsIOUring reports whether the engine of s is to send by io_uring.
func (s *Server) wantsIOUring() bool {
	return s.IOUring == IOUringOn || s.IOUring == IOUringAuto && runtime.GOMAXPROCS(0) == 1
}

// ioURingObstacle returns why e does not send by io_uring although s wants it to.
func ioURingObstacle(e Engine) string {
	if e != EngineEpoll {
		return "engine " + e.String() + " serves"
	}
	if err := uring.Obstacle(); err != nil {
		return textOf(err)
	}
	return ""
}
