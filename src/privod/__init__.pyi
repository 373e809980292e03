# Written by `make stub` from the rooms and the registry of questions.

from privod.client import (
    Client as Client,
    connect as connect,
)
from privod.curator import (
    Accounting as Accounting,
    AdmitPerson as AdmitPerson,
    AllowExactCounts as AllowExactCounts,
    Answer as Answer,
    Approve as Approve,
    BudgetState as BudgetState,
    Charge as Charge,
    ChargeAhead as ChargeAhead,
    ChargeElsewhere as ChargeElsewhere,
    CloseBudget as CloseBudget,
    Curator as Curator,
    DataSet as DataSet,
    Decline as Decline,
    Entry as Entry,
    FileRequest as FileRequest,
    Head as Head,
    LimitToken as LimitToken,
    OpenBudget as OpenBudget,
    Price as Price,
    PricedCharge as PricedCharge,
    Protection as Protection,
    ROLES as ROLES,
    RaiseBudget as RaiseBudget,
    Registered as Registered,
    Request as Request,
    Retire as Retire,
    Role as Role,
    Token as Token,
    Verification as Verification,
    acting as acting,
    adapted as adapted,
    backup as backup,
    fitting as fitting,
    restore as restore,
    who_is_protected as who_is_protected,
)
from privod.data import (
    Boolean as Boolean,
    Categorical as Categorical,
    Column as Column,
    ColumnReport as ColumnReport,
    CsvDialect as CsvDialect,
    Date as Date,
    Domain as Domain,
    IntakeReport as IntakeReport,
    Numeric as Numeric,
    Ordinal as Ordinal,
    SqlQuery as SqlQuery,
    Table as Table,
    draft_domain as draft_domain,
    read as read,
)
from privod.errors import (
    AlreadyExists as AlreadyExists,
    AnswerFailed as AnswerFailed,
    BudgetExceeded as BudgetExceeded,
    InvalidData as InvalidData,
    InvalidParameter as InvalidParameter,
    LedgerDamaged as LedgerDamaged,
    LimitReached as LimitReached,
    NeedsConfirmation as NeedsConfirmation,
    NoPromise as NoPromise,
    NotAllowed as NotAllowed,
    NotFound as NotFound,
    PrivodError as PrivodError,
    ProtocolAborted as ProtocolAborted,
    SeededRelease as SeededRelease,
    Unavailable as Unavailable,
)
from privod.estimators.private import (
    PrivateDetector as PrivateDetector,
)
from privod.joint.detector.question import (
    JointDetector as JointDetector,
    JointProfile as JointProfile,
)
from privod.joint.exact.question import (
    ExactOutliers as ExactOutliers,
    ExactResult as ExactResult,
)
from privod.joint.outliers import (
    OutlierResult as OutlierResult,
)
from privod.joint.published.question import (
    PublishedOutliers as PublishedOutliers,
)
from privod.joint.run import (
    rehearse as rehearse,
)
from privod.outliers.contexts.contexts import (
    Context as Context,
)
from privod.outliers.crowds.anomalies import (
    edits_by_search as edits_by_search,
    is_regular as is_regular,
    least_edit_margin as least_edit_margin,
    record_privacy as record_privacy,
)
from privod.privacy import (
    AddRemove as AddRemove,
    Adjacency as Adjacency,
    AdmittedContexts as AdmittedContexts,
    BetweenTails as BetweenTails,
    Cost as Cost,
    CrowdAdjacency as CrowdAdjacency,
    Guarantee as Guarantee,
    InAlikeCrowd as InAlikeCrowd,
    InCrowd as InCrowd,
    Loss as Loss,
    NOTHING_SPENT as NOTHING_SPENT,
    Number as Number,
    Replace as Replace,
    SameContexts as SameContexts,
    Secrecy as Secrecy,
    Spent as Spent,
    Statement as Statement,
    Zcdp as Zcdp,
    ZcdpBudget as ZcdpBudget,
    adjacency_from_json as adjacency_from_json,
    adjacency_from_text as adjacency_from_text,
    decimal_text as decimal_text,
    exact as exact,
    positive as positive,
)
from privod.query import (
    QUERIES as QUERIES,
    Query as Query,
    Release as Release,
)
from privod.query.labels import (
    answer_by_edits as answer_by_edits,
)
from privod.questions.anomaly_labels.query import (
    AnomalyLabels as AnomalyLabels,
)
from privod.questions.detector_profile.query import (
    DetectorProfile as DetectorProfile,
)
from privod.questions.detector_profile.release import (
    NoisyProfile as NoisyProfile,
)
from privod.questions.graded_count.query import (
    GradedCount as GradedCount,
)
from privod.questions.grid_knn.query import (
    GridKnn as GridKnn,
)
from privod.questions.grid_knn.release import (
    NoisyGrid as NoisyGrid,
)
from privod.questions.histogram.query import (
    Histogram as Histogram,
    NoisyCounts as NoisyCounts,
)
from privod.questions.interactive_grid.query import (
    GridScores as GridScores,
    InteractiveGrid as InteractiveGrid,
)
from privod.questions.novelty_labels.models import (
    EditModel as EditModel,
    plug_in_model as plug_in_model,
)
from privod.questions.novelty_labels.query import (
    NoveltyLabels as NoveltyLabels,
)
from privod.questions.outlier_context.query import (
    OutlierContext as OutlierContext,
    PersonGroups as PersonGroups,
)
from privod.questions.outlier_count.query import (
    OutlierCount as OutlierCount,
)
from privod.questions.outlier_radius.query import (
    OutlierRadius as OutlierRadius,
)
from privod.questions.outlier_subspaces.query import (
    OutlierSubspaces as OutlierSubspaces,
)
from privod.questions.private_bounds.query import (
    PrivateBounds as PrivateBounds,
)
from privod.questions.quantiles.query import (
    NoisyQuantiles as NoisyQuantiles,
    Quantiles as Quantiles,
)
from privod.questions.rare_counts.query import (
    RareCounts as RareCounts,
    ValueCounts as ValueCounts,
)

__version__: str
__all__: list[str]
ROOMS: tuple[str, ...]

def public_names() -> dict[str, str]: ...
