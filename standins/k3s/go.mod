module gsb.fake_gpu_lab/standins/k3s

go 1.26.0

require (
	github.com/klauspost/compress v1.20.0
	go.yaml.in/yaml/v3 v3.0.4
)
