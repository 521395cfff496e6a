package perconn

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine/enginetest"
)

func TestEngine(t *testing.T) {
	enginetest.Run(t, New, enginetest.TCP(), enginetest.Unix(), enginetest.TLS(),
		enginetest.Wrapped(), enginetest.Pipe(), enginetest.DeafPipe())
}
