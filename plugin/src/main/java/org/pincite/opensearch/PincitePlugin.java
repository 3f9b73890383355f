package org.pincite.opensearch;

import org.opensearch.cluster.metadata.IndexNameExpressionResolver;
import org.opensearch.cluster.node.DiscoveryNodes;
import org.opensearch.cluster.service.ClusterService;
import org.opensearch.common.settings.ClusterSettings;
import org.opensearch.common.settings.IndexScopedSettings;
import org.opensearch.common.settings.Setting;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.settings.SettingsFilter;
import org.opensearch.core.common.io.stream.NamedWriteableRegistry;
import org.opensearch.core.xcontent.NamedXContentRegistry;
import org.opensearch.env.Environment;
import org.opensearch.env.NodeEnvironment;
import org.opensearch.plugins.ActionPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.plugins.ReloadablePlugin;
import org.opensearch.plugins.SearchPipelinePlugin;
import org.opensearch.plugins.SearchPlugin;
import org.opensearch.repositories.RepositoriesService;
import org.opensearch.rest.RestController;
import org.opensearch.rest.RestHandler;
import org.opensearch.script.ScriptService;
import org.opensearch.search.pipeline.Processor;
import org.opensearch.search.pipeline.SearchRequestProcessor;
import org.opensearch.search.pipeline.SearchResponseProcessor;
import org.opensearch.threadpool.ThreadPool;
import org.opensearch.transport.client.Client;
import org.opensearch.watcher.ResourceWatcherService;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** The plugin {@code pincite}: registers the hook's processors, its settings and {@code ext.pincite}. */
public final class PincitePlugin extends Plugin implements SearchPipelinePlugin, SearchPlugin, ActionPlugin, ReloadablePlugin {
    private final String token;
    private final HookStats stats = new HookStats();
    // Set in createComponents, which comes before the pipeline service asks for the factories.
    private HookSettings settings;
    private PinciteIndices indices;
    private SidecarClient sidecar;
    private Client client;

    /** Called by the node; reads the secret while the keystore is open. */
    public PincitePlugin(Settings settings) {
        this.token = HookSettings.readToken(settings);
    }

    @Override
    public List<Setting<?>> getSettings() {
        return HookSettings.all();
    }

    @Override
    public Collection<Object> createComponents(
        Client client,
        ClusterService clusterService,
        ThreadPool threadPool,
        ResourceWatcherService resourceWatcherService,
        ScriptService scriptService,
        NamedXContentRegistry xContentRegistry,
        Environment environment,
        NodeEnvironment nodeEnvironment,
        NamedWriteableRegistry namedWriteableRegistry,
        IndexNameExpressionResolver indexNameExpressionResolver,
        Supplier<RepositoriesService> repositoriesServiceSupplier
    ) {
        settings = new HookSettings(environment.settings(), clusterService.getClusterSettings());
        indices = new PinciteIndices(clusterService::state, indexNameExpressionResolver, namedWriteableRegistry);
        sidecar = new SidecarClient(
            settings.sidecarUrls(),
            token,
            settings::maxInFlight,
            settings::breakerFailures,
            settings::breakerOpenNanos
        );
        this.client = client;
        return List.of();
    }

    @Override
    public Map<String, Processor.Factory<SearchRequestProcessor>> getRequestProcessors(Parameters parameters) {
        Legs.Node node = new Legs.Node(
            settings,
            sidecar,
            stats,
            client,
            parameters.threadContext,
            parameters.genericExecutor,
            parameters.scheduler
        );
        return Map.of(
            WindowProcessor.TYPE,
            new WindowProcessor.Factory(settings, indices, (request, ask) -> Legs.start(node, request, ask))
        );
    }

    @Override
    public Map<String, Processor.Factory<SearchResponseProcessor>> getResponseProcessors(Parameters parameters) {
        RerankProcessor.Node node = new RerankProcessor.Node(
            settings,
            indices,
            sidecar,
            stats,
            parameters.threadContext,
            parameters.genericExecutor,
            parameters.scheduler
        );
        return Map.of(RerankProcessor.TYPE, new RerankProcessor.Factory(node));
    }

    @Override
    public List<SearchExtSpec<?>> getSearchExts() {
        return List.of(new SearchExtSpec<>(PinciteExt.NAME, PinciteExt::new, PinciteExt::fromXContent));
    }

    @Override
    public List<RestHandler> getRestHandlers(
        Settings nodeSettings,
        RestController restController,
        ClusterSettings clusterSettings,
        IndexScopedSettings indexScopedSettings,
        SettingsFilter settingsFilter,
        IndexNameExpressionResolver indexNameExpressionResolver,
        Supplier<DiscoveryNodes> nodesInCluster
    ) {
        return List.of(new StatsAction(stats, sidecar));
    }

    /** Takes a new secret from the keystore: {@code POST _nodes/reload_secure_settings}. */
    @Override
    public void reload(Settings reloaded) {
        sidecar.token(HookSettings.readToken(reloaded));
    }

    @Override
    public void close() {
        if (sidecar != null) {
            sidecar.close();
        }
    }
}
