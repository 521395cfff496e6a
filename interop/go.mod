module github.com/sluicehttp/sluice/interop

go 1.26.0

require (
	github.com/mccutchen/go-httpbin/v2 v2.26.0
	github.com/sluicehttp/sluice v0.1.0
	github.com/valyala/fasthttp v1.77.0
	golang.org/x/net v0.62.0
)

require (
	github.com/andybalholm/brotli v1.2.8 // indirect
	github.com/fatih/color v1.19.0
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mattn/go-colorable v0.1.14
	github.com/mattn/go-isatty v0.0.20
	github.com/molecule-man/go-brrr v1.3.0 // indirect
	github.com/summerwind/h2spec v2.2.1+incompatible
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.43.0
)
