"""The texts of the table in Portuguese, for Europe and Brazil alike; the keys are those of the English ones."""

from __future__ import annotations

from azlatch.contracts.words import Text

TEXTS: dict[str, Text] = {
    "done": Text(
        "O serviço fez o que lhe foi pedido.",
        "Nada.",
    ),
    "look_inside": Text(
        "O lote teve uma resposta conjunta e pelo menos uma das suas operações falhou: nada dele foi aplicado.",
        "Veja os resultados das operações: a que não tem 424 é a causa.",
    ),
    "not_modified": Text(
        "Não há nada mais recente do que o pedido indicava: uma leitura condicional, ou o fim, por agora, "
        "do feed de alterações.",
        "Use o que já tem; volte a perguntar mais tarde.",
    ),
    "head_behind": Text(
        "Resposta a um pedido HEAD: a réplica está atrás da posição pedida.",
        "A aplicação não tem nada a fazer; pergunte de novo se espera por essa posição.",
    ),
    "bad_request": Text(
        "O pedido está errado tal como foi escrito: a sintaxe, o corpo, um id ilegal, um ttl de 0 ou null, "
        "ou uma chave de partição fora do intervalo endereçado.",
        "Corrija o pedido; a mensagem da resposta indica a parte errada.",
    ),
    "immutable_key": Text(
        "A chave de partição do pedido não é a que está no item. É o que recebe quem tenta mudar a chave "
        "de partição de um item no próprio lugar: isso não é possível.",
        "Passe a chave que o item tem. Para mover um item, crie-o primeiro com a chave nova e só depois "
        "apague o antigo, com uma condição.",
    ),
    "wrong_key": Text(
        "A chave de partição do pedido não corresponde ao contêiner ou ao item.",
        "Passe o valor que o item tem no caminho da chave de partição do contêiner, com todos os níveis.",
    ),
    "query_not_servable": Text(
        "O gateway não consegue executar sozinho esta consulta em todas as partições.",
        "Deixe o SDK planeá-la (um SDK atual faz isso), indique uma chave de partição, ou simplifique a "
        "consulta.",
    ),
    "no_key_definition": Text(
        "O contêiner ia ser criado sem definição da chave de partição.",
        "Indique o caminho da chave de partição.",
    ),
    "transaction_request": Text(
        "O pedido refere uma transação distribuída que já está ativa, que não existe, ou que abrange o que "
        "não pode.",
        "Inicie uma transação nova, dentro dos limites da funcionalidade.",
    ),
    "throughput_change": Text(
        "Ainda está em curso outra alteração da taxa de transferência.",
        "Espere que termine e altere de novo.",
    ),
    "script": Text(
        "O texto de um procedimento armazenado, gatilho ou função não compila.",
        "Corrija o script.",
    ),
    "bad_body": Text(
        "O cliente não conseguiu escrever o corpo do pedido: ele nunca saiu do programa.",
        "Use um item só com tipos de JSON.",
    ),
    "method": Text(
        "O serviço não oferece este método HTTP nesse endereço.",
        "Verifique o endereço e o cliente que fez o pedido.",
    ),
    "negative_timeout": Text(
        "O programa deu um limite de tempo negativo; nada foi enviado.",
        "Corrija o cálculo do limite de tempo.",
    ),
    "too_large": Text(
        "O item ou o pedido tem mais de 2 MB.",
        "Reduza o item: divida-o, ou guarde a parte grande num blob e o endereço dela no item.",
    ),
    "batch_too_large": Text(
        "O lote é maior do que uma transação pode ser.",
        "Divida-o, se as partes não tiverem de valer em conjunto; senão, reduza os itens. Cabem 100 "
        "operações e 2 MB.",
    ),
    "batch_reply_too_large": Text(
        "A resposta ao lote seria maior do que o permitido.",
        "Divida o lote, ou não peça os itens de volta.",
    ),
    "not_signed": Text(
        "A credencial não foi aceite: uma chave errada ou já trocada, um relógio errado, ou falta de "
        "identidade.",
        "Verifique a chave, o relógio e a identidade desta instância; depois de uma troca de chaves, "
        "reinicie quem ainda tem a antiga.",
    ),
    "token": Text(
        "O token do Entra ID não foi aceite: falta, está malformado, expirou, foi revogado, ou é para "
        "outra audiência.",
        "Obtenha um token novo; se não resolver, verifique o tenant, a audiência e o relógio.",
    ),
    "kind_of_credential": Text(
        "A conta não aceita este tipo de credencial: as chaves ou o Entra ID estão desligados nela.",
        "Use o tipo que a conta permite; ligar outro é uma decisão de segurança.",
    ),
    "no_token": Text(
        "O cliente não conseguiu obter ou criar uma credencial; o pedido nunca saiu.",
        "Verifique a identidade que a plataforma dá a este programa e o caminho até ao Entra ID.",
    ),
    "forbidden": Text(
        "A credencial é conhecida, mas não pode fazer isto: falta uma função, ou há uma firewall ou uma "
        "rede privada.",
        "Verifique as atribuições de funções do plano de dados, a firewall e os pontos de extremidade "
        "privados da conta.",
    ),
    "role": Text(
        "A identidade do Entra ID não tem uma função do plano de dados que permita isto nesse lugar.",
        "Atribua à identidade uma função do plano de dados do Cosmos DB no âmbito certo; dê-lhe alguns "
        "minutos para se propagar.",
    ),
    "management_by_data_plane": Text(
        "As identidades do Entra ID não podem criar nem alterar bancos de dados e contêineres pelo plano "
        "de dados.",
        "Crie-os pelo plano de gestão (az cosmosdb, Bicep, Terraform) e deixe o programa apenas usá-los.",
    ),
    "network": Text(
        "Um perímetro de segurança de rede recusou a ligação.",
        "Permita esta rede no perímetro, ou ligue-se a partir de dentro.",
    ),
    "key_vault": Text(
        "Não é possível usar a chave da conta gerida pelo cliente: o Key Vault, o endereço, a chave ou a "
        "identidade.",
        "Verifique a chave, o cofre, as regras de rede dele e a identidade da conta. Até lá a conta não "
        "responde a nada.",
    ),
    "partition_full": Text(
        "A partição lógica desta chave já tem 20 GB: não aceita mais.",
        "Dê aos dados uma chave com mais valores, ou uma chave hierárquica, e mova-os. Até lá, apague ou "
        "deixe expirar itens desta chave; o suporte pode elevar o limite por algum tempo.",
    ),
    "quota": Text(
        "Foi atingido um limite da conta, ou de um banco de dados com taxa de transferência partilhada.",
        "Eleve o limite, liberte alguma coisa, ou ponha o contêiner noutro lugar.",
    ),
    "redundant": Text(
        "Um pedido de gestão para o que já está assim.",
        "Leia o estado e dispense o pedido.",
    ),
    "system_key": Text(
        "Esta chave de partição está reservada ao serviço.",
        "Use outro valor.",
    ),
    "soft_deleted": Text(
        "O recurso foi apagado e ainda pode ser restaurado.",
        "Restaure-o, ou espere que seja eliminado de vez antes de usar o nome de novo.",
    ),
    "write_region": Text(
        "Esta região não aceita escritas agora: houve um failover, ou a lista de regiões do cliente está "
        "velha.",
        "Deixe o cliente ler de novo a conta e enviar a escrita para a região de escrita. O SDK faz isso "
        "sozinho, exceto se a descoberta de pontos de extremidade estiver desligada.",
    ),
    "region_left": Text(
        "Esta região já não conhece a conta: houve um failover, ou a região foi removida.",
        "Deixe o cliente ler de novo a conta e usar outra região; verifique as localizações preferidas.",
    ),
    "absent": Text(
        "Nenhum item tem este id nesta partição lógica. Um item com outra chave de partição tem o mesmo "
        "aspeto, tal como um que um nível de consistência mais fraco ainda não mostra.",
        "Verifique se a chave de partição é mesmo a do item. Depois, considere-o ausente.",
    ),
    "behind_session": Text(
        "A réplica ainda não tem aquilo que, segundo o token de sessão, já foi visto. Isto nada diz sobre "
        "a existência do item.",
        "Pergunte de novo, com o mesmo token, dentro de um prazo, ou na região de escrita. Nunca considere "
        "isto uma ausência. Se durar, o token é de outro contêiner, de outra conta ou anterior a um "
        "failover.",
    ),
    "owner_missing": Text(
        "O banco de dados ou o contêiner não existe.",
        "Verifique os nomes e a conta; crie o que falta. Logo após a criação, espere um momento.",
    ),
    "owner_missing_for": Text(
        "O que o pedido precisa, o banco de dados ou o contêiner, não existe: para isto não era preciso "
        "nenhum item.",
        "Verifique os nomes e a conta; crie o que falta. Logo após a criação, espere um momento.",
    ),
    "being_created": Text(
        "O contêiner está a ser criado.",
        "Pergunte de novo daqui a pouco.",
    ),
    "store_not_ready": Text(
        "A réplica está a arrancar.",
        "Pergunte de novo daqui a pouco.",
    ),
    "container_changed": Text(
        "O contêiner foi apagado e criado de novo com o mesmo nome: o que o cliente sabe dele é do antigo.",
        "Deixe o cliente ler de novo o contêiner e descarte os tokens de sessão, as continuações e as "
        "posições guardadas do antigo. Pergunte quem o criou de novo: os itens antigos desapareceram.",
    ),
    "partition_migrating": Text(
        "A partição física está a mudar de lugar, ou o lugar antigo já não existe.",
        "Pergunte de novo daqui a pouco.",
    ),
    "no_offer": Text(
        "Não há taxa de transferência definida neste contêiner ou banco de dados.",
        "Pergunte onde ela está definida: no banco de dados, ou em lado nenhum numa conta serverless.",
    ),
    "other_404": Text(
        "Alguma coisa não está lá, e o subestado que diria o quê não está documentado.",
        "Não considere isto a ausência de um item. Procure o subestado, ou pergunte ao suporte com o id de "
        "atividade.",
    ),
    "partition_moved": Text(
        "A partição física foi dividida, fundida ou mudada de lugar.",
        "Deixe o cliente ler de novo os intervalos, como faz o SDK, e pergunte de novo.",
    ),
    "name_cache": Text(
        "O que o cliente sabe do nome do contêiner está velho: o contêiner foi criado de novo.",
        "Deixe o cliente lê-lo de novo, como faz o SDK, e pergunte de novo; descarte os tokens de sessão "
        "do antigo.",
    ),
    "splitting": Text(
        "Está a terminar uma divisão ou fusão da partição física.",
        "Pergunte de novo daqui a pouco; leva segundos, raramente mais.",
    ),
    "migrating": Text(
        "A partição física está a passar para outra máquina.",
        "Pergunte de novo daqui a pouco.",
    ),
    "lease_moved": Text(
        "A réplica mudou de lugar.",
        "Pergunte de novo daqui a pouco.",
    ),
    "archival": Text(
        "A partição de arquivo não está lá.",
        "Pergunte de novo daqui a pouco; se durar, pergunte ao suporte.",
    ),
    "retries_used_up": Text(
        "O cliente tentou durante algum tempo acompanhar uma divisão, uma fusão ou uma mudança, e desistiu.",
        "Pergunte de novo após uma pausa; se durar minutos, pergunte ao suporte.",
    ),
    "read_quorum": Text(
        "Responderam poucas réplicas para uma leitura deste nível de consistência.",
        "Pergunte de novo; se durar, leia noutra região ou a um nível mais fraco, mas só por decisão "
        "consciente.",
    ),
    "exists": Text(
        "Já há um item com este id nesta partição lógica (ou, em alguns serviços, com os valores de uma "
        "chave única).",
        "Leia-o e decida: é de outra pessoa, ou é seu, de uma tentativa cuja resposta se perdeu.",
    ),
    "unique_or_id": Text(
        "Outro item da partição lógica tem os mesmos valores numa chave única, ou tem o novo id.",
        "Encontre esse item pela chave única e decida qual dos dois está certo.",
    ),
    "control_plane": Text(
        "Está em curso uma operação de gestão sobre o contêiner.",
        "Espere que termine e envie de novo.",
    ),
    "name_taken": Text(
        "O nome está em uso.",
        "Use o que lá está, ou outro nome.",
    ),
    "unique_key": Text(
        "Outro item da partição lógica tem os mesmos valores nos caminhos de uma chave única.",
        "Encontre esse item por esses valores e decida qual dos dois está certo. Um upsert não resolve: "
        "responde o mesmo.",
    ),
    "hash_collision": Text(
        "Existe um item com este id sob outra chave de partição que tem o mesmo hash.",
        "Use outro id para o item novo.",
    ),
    "other_409": Text(
        "Um conflito cujo subestado não está documentado.",
        "Leia o que está guardado e compare; procure o subestado, ou pergunte ao suporte com o id de "
        "atividade.",
    ),
    "stale_version": Text(
        "O item não está na versão que a condição indica: entretanto, alguém escreveu.",
        "Leia-o de novo, reconcilie a sua alteração com a outra e envie o resultado com o ETag novo. Nunca "
        "retire a condição.",
    ),
    "patch_condition": Text(
        "A condição do patch não é verdadeira para o item tal como está guardado.",
        "Leia o item e decida se a alteração ainda faz sentido. Nunca retire a condição.",
    ),
    "management_lock": Text(
        "Uma operação de gestão (divisão, fusão, mudança da taxa de transferência, restauro) detém aquilo "
        "de que o pedido precisa. Nada tem a ver com ETags.",
        "Espere que termine e envie de novo.",
    ),
    "other_412": Text(
        "Uma condição falhou, e o subestado que diria qual não está documentado.",
        "Não conclua que é um ETag velho antes de ler o item e comparar. Procure o subestado.",
    ),
    "scaling": Text(
        "Está em curso uma operação de escala do contêiner.",
        "Espere que termine e envie de novo.",
    ),
    "failed_dependency": Text(
        "Esta operação não foi aplicada porque outra operação do mesmo lote falhou. Nunca é a causa.",
        "Encontre a operação do lote cujo estado não é 424 e trate dessa.",
    ),
    "concurrent_write": Text(
        "O serviço encontrou, no mesmo instante, outra escrita no mesmo item. Não envolve ETags e nada foi "
        "aplicado.",
        "Envie de novo após uma pausa curta e crescente. O SDK para Python não faz isso sozinho.",
    ),
    "rbac_unavailable": Text(
        "O serviço não conseguiu saber a tempo o que a identidade pode fazer.",
        "Envie de novo daqui a pouco.",
    ),
    "coordinator_race": Text(
        "Dois coordenadores de uma transação distribuída encontraram-se.",
        "Envie de novo após uma pausa curta.",
    ),
    "transaction_aborted": Text(
        "Uma transação distribuída foi abandonada: nada dela foi aplicado.",
        "Veja os resultados das operações: a que não foi desfeita é a causa.",
    ),
    "rolled_back": Text(
        "Esta operação foi desfeita porque outra operação da transação distribuída falhou. Nunca é a causa.",
        "Encontre a operação que é a causa e trate dessa.",
    ),
    "request_units": Text(
        "As unidades de pedido por segundo da partição física esgotaram-se. Nada foi aplicado.",
        "Espere o tempo que a resposta indica. Se durar: encontre o que custa mais, espalhe a chave, ou "
        "eleve a taxa de transferência. De um a cinco por cento de 429 é saudável.",
    ),
    "throttled": Text(
        "Mais pedidos do que os que são servidos neste momento. Nada foi aplicado.",
        "Espere o tempo que a resposta indica. O subestado diz se a causa são unidades de pedido, uma "
        "chave quente ou metadados: registe-o.",
    ),
    "metadata": Text(
        "Demasiados pedidos de metadados: bancos de dados, contêineres, intervalos, taxa de transferência. "
        "Mais unidades de pedido não ajudam.",
        "Mantenha um só cliente para todo o programa e não crie nem leia bancos de dados e contêineres a "
        "cada pedido.",
    ),
    "per_minute": Text(
        "As unidades de pedido por minuto esgotaram-se.",
        "Espere o tempo que a resposta indica; eleve a taxa de transferência se durar.",
    ),
    "scale_down": Text(
        "A taxa de transferência está a ser reduzida.",
        "Espere que isso termine.",
    ),
    "prepare_time": Text(
        "Uma transação não pôde ser preparada no tempo que tem.",
        "Envie de novo após uma pausa; reduza a transação.",
    ),
    "bucket": Text(
        "O grupo de taxa de transferência (bucket) deste cliente esgotou a sua parte.",
        "Espere o tempo que a resposta indica; aumente a parte do grupo, ou passe trabalho para outro.",
    ),
    "bucket_updates": Text(
        "Os grupos de taxa de transferência (buckets) foram alterados demasiadas vezes.",
        "Altere-os menos vezes.",
    ),
    "hot_key": Text(
        "Uma só chave de partição lógica recebe mais pedidos do que uma chave pode servir, enquanto as "
        "outras não esperam por nada. Mais taxa de transferência ajuda pouco.",
        "Espere e depois mude o modelo: uma chave com mais valores, uma chave hierárquica, ou um sufixo "
        "que espalhe esta chave.",
    ),
    "fabric": Text(
        "As unidades de capacidade do Microsoft Fabric esgotaram-se.",
        "Espere, ou aumente a capacidade.",
    ),
    "inside_the_service": Text(
        "O serviço está a proteger-se: uma fila, um log ou uma máquina dele está no limite. Não é o seu "
        "orçamento.",
        "Espere o tempo que a resposta indica. Se durar, pergunte ao suporte com o id de atividade.",
    ),
    "staleness_bound": Text(
        "Uma região está mais atrasada do que a desatualização limitada permite: as escritas ficam retidas "
        "até que ela recupere.",
        "Espere o tempo que a resposta indica; se durar, veja a saúde das regiões.",
    ),
    "procedures": Text(
        "Correm demasiados procedimentos armazenados ao mesmo tempo na partição.",
        "Execute menos de cada vez.",
    ),
    "other_region": Text(
        "A máquina que serve a partição está sem recursos.",
        "Use outra região, se a conta tiver; senão, espere.",
    ),
    "own_control": Text(
        "O controlo de taxa de transferência do próprio programa reteve o pedido: ele nunca saiu.",
        "Espere, ou dê a este grupo uma parte maior.",
    ),
    "timeout": Text(
        "O serviço não terminou a tempo. De uma escrita, ninguém sabe se foi aplicada.",
        "Leia o item e compare antes de escrever de novo.",
    ),
    "preempted": Text(
        "O serviço interrompeu o pedido porque durou demasiado. De uma escrita, ninguém sabe se foi aplicada.",
        "Reduza o pedido; leia o item e compare antes de escrever de novo.",
    ),
    "own_deadline": Text(
        "O limite de tempo do programa acabou com o pedido a caminho. De uma escrita, ninguém sabe se foi "
        "aplicada.",
        "Leia o item e compare antes de escrever de novo; verifique se o limite é maior do que o caminho "
        "até à região.",
    ),
    "internal": Text(
        "Um erro dentro do serviço. De uma escrita, ninguém sabe se foi aplicada.",
        "Leia o item e compare antes de escrever de novo. Se durar, pergunte ao suporte com o id de atividade.",
    ),
    "internal_management": Text(
        "Uma operação de gestão falhou dentro do serviço.",
        "Leia o estado do recurso antes de pedir de novo. Se durar, pergunte ao suporte com o id de atividade.",
    ),
    "coordinator": Text(
        "O coordenador de uma transação distribuída falhou: ninguém sabe se ela foi aplicada.",
        "Leia o que ela escreve e compare antes de a enviar de novo.",
    ),
    "unreadable": Text(
        "A resposta chegou e não se conseguiu ler: o pedido provavelmente foi executado.",
        "Leia o item e compare antes de escrever de novo.",
    ),
    "proxy": Text(
        "Um proxy ou gateway entre o programa e o serviço respondeu no lugar dele. De uma escrita, ninguém "
        "sabe se foi aplicada.",
        "Leia o item e compare antes de escrever de novo; tire o proxy do caminho, ou aumente os limites "
        "de tempo dele.",
    ),
    "maybe_sent": Text(
        "O próprio cliente criou esta resposta depois de a ligação ou as réplicas falharem: o pedido pode "
        "ter sido executado.",
        "Leia o item e compare antes de escrever de novo.",
    ),
    "retriable_writes": Text(
        "Uma resposta sobre uma tentativa anterior da mesma escrita.",
        "Leia o item: a tentativa anterior é que decide.",
    ),
    "unavailable": Text(
        "O serviço não processou o pedido: um failover, um reinício, ou pouca capacidade.",
        "Envie de novo após uma pausa, ou noutra região. Um proxy pode responder 503 sobre o que não sabe: "
        "uma condição, ou um id de operação no item, torna a repetição inofensiva.",
    ),
    "other_503": Text(
        "O pedido foi recusado ou perdeu-se no caminho, e o subestado que diria qual não está documentado.",
        "Leia o item e compare antes de escrever de novo.",
    ),
    "region_full": Text(
        "A região não tem capacidade para isto agora.",
        "Use outra região, ou menos taxa de transferência; peça capacidade ao suporte.",
    ),
    "federation": Text(
        "Não foi encontrada a parte do serviço que devia servir isto.",
        "Envie de novo após uma pausa; se durar, pergunte ao suporte com o id de atividade.",
    ),
    "replicas": Text(
        "Poucas réplicas puderam participar.",
        "Envie de novo após uma pausa.",
    ),
    "offline": Text(
        "O serviço, ou esta operação dele, está em pausa.",
        "Espere; veja a página de saúde do serviço.",
    ),
    "not_connected": Text(
        "Não se estabeleceu ligação: nada foi enviado.",
        "Verifique o nome, a rede, a firewall e o ponto de extremidade privado; envie de novo.",
    ),
    "ranges_inconsistent": Text(
        "O cliente leu uma lista de partições físicas que se contradiz, como pode acontecer durante uma "
        "divisão.",
        "Envie de novo após uma pausa.",
    ),
    "said_not_sent": Text(
        "O cliente diz que o pedido não foi enviado. O cliente asyncio diz o mesmo de uma ligação que foi "
        "fechada depois de o pedido ter sido executado, e envia-o de novo: de uma escrita, ninguém sabe "
        "quantas vezes foi aplicada.",
        "Leia o item e compare antes de escrever de novo. Verifique o nome e a rede da conta.",
    ),
    "no_reply": Text(
        "O pedido foi enviado e não chegou uma resposta completa. De uma escrita, ninguém sabe se foi "
        "aplicada.",
        "Leia o item e compare antes de escrever de novo.",
    ),
    "empty_batch": Text(
        "O lote teve resposta, mas sem resultados das suas operações: ninguém sabe se foi aplicado.",
        "Leia um item que o lote escreve e compare antes de o enviar de novo.",
    ),
    "other_status": Text(
        "Nada se sabe deste estado.",
        "Procure-o na documentação do serviço, ou pergunte ao suporte com o id de atividade.",
    ),
    "unknown": Text(
        "Isto não é uma resposta do Cosmos DB que esteja na tabela.",
        "Indique estado e subestado (404/1002), a exceção, ou a linha do log com os dois números.",
    ),
}
