//go:build !linux

package enginetest

import (
	"net"
	"testing"
)

// leaveOneDescriptor cannot be done in a portable way.
func leaveOneDescriptor(*testing.T) (restore func(), ok bool) { return nil, false }

// serverNoDelay cannot be told in a portable way.
func serverNoDelay(net.Addr) (on, found bool) { return false, false }
