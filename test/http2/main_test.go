package http2_test

import (
	"os"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

func TestMain(m *testing.M) { os.Exit(nettest.RunWaiting(m)) }
