module github.com/sluicehttp/sluice/cmd/sluice

go 1.26.0

require (
	github.com/sluicehttp/sluice v0.0.0
	github.com/spf13/cobra v1.10.2
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
)

replace github.com/sluicehttp/sluice => ../../
