package http3

import (
	_ "github.com/quic-go/quic-go"
	_ "github.com/sluicehttp/sluice"
)
