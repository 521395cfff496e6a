module github.com/sluicehttp/sluice/http3

go 1.26.0

require (
	github.com/quic-go/quic-go v0.65.0
	github.com/sluicehttp/sluice v0.1.0
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/andybalholm/brotli v1.2.8 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/quic-go/qpack v0.6.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
