module gsb.fake_gpu_lab/standins/pause

go 1.26.0
