// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package deviceplugin serves nvidia.com/gpu to the kubelet by the device plugin API v1beta1.
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gsb.fake_gpu_lab/standins/fake_gpu_operator/internal/topology"
)

const (
	socketName = "fake-nvidia-gpu.sock"
	// SmiInImage is where the image of the plugin has nvidia-smi, and where a container that got a card finds it.
	SmiInImage = "/bin/nvidia-smi"
	// SmiOnHost is the copy that is mounted into containers.
	SmiOnHost = "/var/lib/runai/bin/nvidia-smi"
)

// Plugin is one registration with one kubelet. It does not watch the kubelet's socket: after a restart of the kubelet
// the node has no GPUs until the plugin's pod is restarted, as with the original.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer

	NodeName string
	// Dir holds kubelet.sock and the plugin's own socket.
	Dir     string
	devices []*pluginapi.Device
	stop    chan struct{}
}

// New makes count healthy devices. Their ids are random: new ones at every start, and none of the topology's.
func New(nodeName, dir string, count int) *Plugin {
	plugin := &Plugin{NodeName: nodeName, Dir: dir, stop: make(chan struct{})}
	for range count {
		plugin.devices = append(plugin.devices, &pluginapi.Device{ID: uuid.NewString(), Health: pluginapi.Healthy})
	}
	return plugin
}

// Run serves, registers once, and returns when the context ends. The socket file stays; the next start removes it.
func (p *Plugin) Run(ctx context.Context) error {
	socket := filepath.Join(p.Dir, socketName)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		close(p.stop)
		server.Stop()
	}()

	if err := p.register(ctx); err != nil {
		return fmt.Errorf("could not register with the kubelet: %w", err)
	}
	log.Printf("Registered %s with %d devices", topology.Resource, len(p.devices))
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		return err
	}
}

func (p *Plugin) register(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(p.Dir, filepath.Base(pluginapi.KubeletSocket)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		Endpoint:     socketName,
		ResourceName: string(topology.Resource),
	})
	return err
}

// GetDevicePluginOptions asks for neither preference nor preparation.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices once: they never change while the process lives.
func (p *Plugin) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	select {
	case <-p.stop:
	case <-stream.Context().Done():
	}
	return nil
}

// Allocate tells the container which devices it got and mounts nvidia-smi.
func (p *Plugin) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerAllocateResponse{
			Envs: map[string]string{
				"MOCK_NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ","),
				"NODE_NAME":                   p.NodeName,
			},
			Mounts: []*pluginapi.Mount{{ContainerPath: SmiInImage, HostPath: SmiOnHost, ReadOnly: true}},
		})
	}
	return response, nil
}
