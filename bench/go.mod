module github.com/sluicehttp/sluice/bench

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/andybalholm/brotli v1.2.8
	github.com/klauspost/compress v1.20.3
	github.com/sluicehttp/sluice v0.0.0
	github.com/valyala/fasthttp v1.74.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/molecule-man/go-brrr v1.0.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
)

replace github.com/sluicehttp/sluice => ../
