package server_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestErrTimeoutIsANetworkTimeout(t *testing.T) {
	var err error = fmt.Errorf("wrapped: %w", sluice.ErrTimeout)
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, sluice.ErrTimeout) {
		t.Errorf("%v", err)
	}
	if net.Error(nil) != nil || sluice.ErrTimeout.Error() == "" {
		t.Error("no text")
	}
}

func TestErrorsQuoteWhatTheyShow(t *testing.T) {
	for _, err := range []error{sluice.EscapeError("%\r\n"), sluice.InvalidHostError("a\r\nb")} {
		if text := err.Error(); !strings.HasPrefix(text, "sluice: ") || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%q", text)
		}
	}
}
