module github.com/sluicehttp/sluice/tools/lab

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/schollz/progressbar/v3 v3.19.1
	github.com/sluicehttp/sluice v0.1.0
	github.com/sluicehttp/sluice/http3 v0.1.0
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
)

require (
	github.com/andybalholm/brotli v1.2.8 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/quic-go/quic-go v0.65.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
)
