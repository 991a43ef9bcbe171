{{- /*
SPDX-License-Identifier: GPL-3.0-or-later
Copyright: (c) 2026, gsb.fake_gpu_lab contributors
*/}}

{{- /* image and pull policy of a component: (list $ .Values.devicePlugin) */}}
{{- define "fgo.image" -}}
{{- $root := index . 0 -}}
{{- $image := (index . 1).image -}}
image: {{ printf "%s:%s" $image.repository ($image.tag | default $root.Chart.AppVersion) | quote }}
{{- with $image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- define "fgo.pullSecrets" -}}
imagePullSecrets:
  - name: gcr-secret
{{- end }}

{{- define "fgo.topology" -}}
{{ toYaml .Values.topology }}
{{- end }}

{{- /* a changed topology restarts the pods that carry this */}}
{{- define "fgo.topologyChecksum" -}}
checksum/topology: {{ include "fgo.topology" . | sha256sum }}
{{- end }}

{{- define "fgo.topologyEnv" -}}
- name: TOPOLOGY_CM_NAME
  value: topology
- name: TOPOLOGY_CM_NAMESPACE
  value: {{ .Release.Namespace }}
{{- end }}

{{- define "fgo.nodeEnv" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end }}

{{- define "fgo.hostpathInit" -}}
#!/bin/bash
set -eu
mark=/var/lib/runai/.hostpath-init
if ! : > "$mark"; then
  echo "hostpath-init: /var/lib/runai of the host cannot be written" >&2
  exit 1
fi
echo "hostpath-init: /var/lib/runai is ready"
{{- end }}

{{- define "fgo.exporterPod" -}}
metadata:
  labels:
    app: nvidia-dcgm-exporter
    component: status-exporter
  annotations:
    checksum/hostpath-init-configmap: {{ include "fgo.hostpathInit" . | sha256sum }}
spec:
  serviceAccountName: status-exporter
  {{- include "fgo.pullSecrets" . | nindent 2 }}
  nodeSelector:
    nvidia.com/gpu.deploy.dcgm-exporter: "true"
  tolerations:
    - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
  initContainers:
    - name: hostpath-init
      {{- include "fgo.image" (list $ .Values.ubuntu) | nindent 6 }}
      command: [/bin/bash, /scripts/hostpath-init.sh]
      volumeMounts:
        - {name: runai-data, mountPath: /var/lib/runai}
        - {name: hostpath-init, mountPath: /scripts, readOnly: true}
  containers:
    - name: nvidia-dcgm-exporter
      {{- include "fgo.image" (list $ .Values.statusExporter) | nindent 6 }}
      env:
        {{- include "fgo.nodeEnv" . | nindent 8 }}
        {{- include "fgo.topologyEnv" . | nindent 8 }}
      ports:
        - {name: http, containerPort: 9400}
      {{- with .Values.statusExporter.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: runai-data, mountPath: /var/lib/runai}
  volumes:
    - name: runai-data
      hostPath: {path: /var/lib/runai, type: DirectoryOrCreate}
    - name: hostpath-init
      configMap: {name: hostpath-init}
{{- end }}
