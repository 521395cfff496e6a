package server_test

import (
	"os"
	"testing"

	"github.com/sluicehttp/sluice/internal/nettest"
)

func TestMain(m *testing.M) { os.Exit(nettest.RunWaiting(m)) }
