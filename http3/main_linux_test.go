package http3

import (
	"os"
	"testing"
)

// roleVariable makes the test binary a program that serves with workers.
const roleVariable = "SLUICE_HTTP3_TEST"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	os.Exit(m.Run())
}
