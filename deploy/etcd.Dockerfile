# Debian's etcd in a container, run by a user who is not root. It has no settings: give them as variables (ETCD_...).
#
#     docker build -t flintmq-etcd -f deploy/etcd.Dockerfile deploy

FROM debian:bookworm-slim
RUN apt-get update && apt-get install --no-install-recommends --yes etcd-server etcd-client \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 2379 nodes && useradd --system --uid 2379 --gid nodes --no-create-home nodes \
    && install --directory --owner=nodes --group=nodes --mode=700 /var/lib/etcd
USER nodes
VOLUME /var/lib/etcd
EXPOSE 2379 2380
ENTRYPOINT ["etcd"]
