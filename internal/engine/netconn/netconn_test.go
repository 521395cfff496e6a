package netconn

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine/enginetest"
)

func TestEngine(t *testing.T) { enginetest.RunProcs(t, New) }
